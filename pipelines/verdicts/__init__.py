"""What a person said of pictures: the file, which verdicts count, and the labels, boxes and figures that follow."""
