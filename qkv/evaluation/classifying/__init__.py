"""Classes of images, named and measured."""
