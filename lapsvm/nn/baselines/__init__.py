"""Baselines trained with torch on fixed window features. `lapsvm.nn` exports them; nothing here imports torch early."""
