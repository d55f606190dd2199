"""Song, Cha and Seo 2023, the pitfalls of ROAR."""
