"""Our models for other programs: Hugging Face's `MarianMTModel`, Marian.

A checkpoint for an imported model's words becomes an `imports.source.Source` again (`trained`), every head
in its place and zeros where heads were removed; `hf_folder` and `marian` write it.
"""

from fairseq_headprune.fairseq_adapter import prepare

prepare()
