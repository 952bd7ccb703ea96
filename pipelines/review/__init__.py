"""The page on which a person judges boxes, its local server, and the order of the pictures."""
