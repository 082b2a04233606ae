"""What training does beside DP-SGD, each with its declared guarantee."""
