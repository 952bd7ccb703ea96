"""What a run is: its settings, its folder, its data set and what every stage is given."""
