"""Loops with known answers, by what they try. `row`: what a row is, and the variables of all."""
