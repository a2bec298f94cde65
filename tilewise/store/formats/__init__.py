"""Files as arrays, one module per format. `kinds`: which format a path has, and its door; `flat`: elements that lie
in a file one after the other; `file_sink`: what all that write share. Loaded when first asked for.
"""
