"""Models of other programs as our checkpoints, and back: Marian (OPUS-MT, Firefox) and Hugging Face's
MarianMTModel.

Guide: README.md. A source is read (`marian`, `hf_folder`) into a `source.Source`: options and tensors
under our names, vocabularies in the source's order; `checkpoint` gives it fairseq's order of words, `folder`
writes it.
"""
