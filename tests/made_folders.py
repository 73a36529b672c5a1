"""Folders as synthesize leaves them, of gists and models that were made for a test."""

from dpgist.methods import Merf
from dpgist.outputs import Outputs, save_release, write_table

SMALL = Merf(joint_frequencies=40, pair_frequencies=60)


def write_folder(path, gist, model, rows):
    outputs = Outputs(folder=path, images=gist.schema.image is not None)
    outputs.prepare()
    save_release(gist, outputs)
    model.save(outputs.model)
    write_table(rows, outputs.rows, gist.schema, force=False)
    return path
