"""Figures for notebooks, and the profiles and number formats they share with the report."""
