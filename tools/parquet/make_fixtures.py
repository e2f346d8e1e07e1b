"""python make_fixtures.py OUT  writes the parquet files that kiln-data's tests read, as `datasets` and pandas write them.

Needs pyarrow (made with 26.0) and numpy. A picture is four bytes that no decoder reads: the tests compare bytes.
"""
import json
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq

OUT = pathlib.Path(sys.argv[1])
PICTURES = [bytes([row]) * (3 + row % 5) for row in range(40)]


def hugging_face(name, rows, **options):
    """A struct of bytes and path, labels that are numbers with their names in the schema."""
    features = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog", "owl"], "_type": "ClassLabel"}}
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema(
        [("image", image), ("label", pa.int64())],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    images = [{"bytes": PICTURES[row], "path": f"{row}.jpg"} for row in rows]
    table = pa.table([pa.array(images, image), pa.array([2 * (row % 2) for row in rows], pa.int64())], schema=schema)
    pq.write_table(table, OUT / name, **options)


def plain(name, **options):
    """Columns of bytes and of text, both with nulls, over several pages."""
    images = [None if row == 7 else PICTURES[row] for row in range(40)]
    labels = [None if row == 9 else ("a", "b", "b")[row % 3] for row in range(40)]
    table = pa.table({"img": pa.array(images, pa.binary()), "extra": list(range(40)), "class": labels})
    pq.write_table(table, OUT / name, data_page_size=64, write_batch_size=8, **options)


hugging_face("train-00000-of-00001.parquet", range(30), row_group_size=12)
hugging_face("test-00000-of-00001.parquet", range(30, 36), compression="none", use_dictionary=False)
plain("plain_v1_gzip.parquet", compression="gzip", use_dictionary=False)
plain("plain_v2_snappy.parquet", compression="snappy", data_page_version="2.0")
plain("zstd.parquet", compression="zstd")
