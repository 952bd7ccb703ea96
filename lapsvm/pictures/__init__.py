"""Pictures of any kind as 8-bit RGB, and the reasons why a picture shows nothing."""
