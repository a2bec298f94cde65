"""Where arrays live. `base`: the protocols of sources, sinks and block stores; `arrays`: those of the driver's arrays;
`blocks`: a worker's blocks in memory; `pool`: memory that is used again; `spill`: values of a plan on disk;
`formats`: files, one module per format.
"""
