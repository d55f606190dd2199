"""The papers that are reproduced: their claims, figures, published numbers, recipes and study files."""
