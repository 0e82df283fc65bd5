"""The plugin of pytest: gates the GPU memory of tests."""
