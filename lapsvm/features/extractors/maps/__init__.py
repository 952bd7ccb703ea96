"""The maps of networks: which outputs they are, and how a picture lies in them."""
