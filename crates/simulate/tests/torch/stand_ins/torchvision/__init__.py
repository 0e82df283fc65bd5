"""What the tests need of torchvision, where it is not installed."""
