"""Arrays inside of loops. In: values, subscripts. Out: formulas of elements, views, loops that fill them."""
