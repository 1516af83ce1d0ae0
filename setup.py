"""Installation. Tested versions of everything are pinned in constraints.txt."""

from setuptools import find_packages, setup

# fairseq 0.12.2 cannot be imported on Python 3.11 and later (mutable dataclass defaults).
# ve-fairseq is fairseq's main branch with that mended, as wheels for Linux x86_64 and Python 3.11/3.12;
# fairseq-fixed is a source distribution for everything else.
_wheel = "platform_system == 'Linux' and platform_machine == 'x86_64' and python_version < '3.13'"
_no_wheel = "platform_system != 'Linux' or platform_machine != 'x86_64' or python_version >= '3.13'"

setup(
    name="fairseq-headprune",
    version="0.2.0",
    description="Attention-head gates, pruning, relevance and analysis for fairseq Transformers",
    license="MIT",
    python_requires=">=3.11",
    packages=find_packages(include=["fairseq_headprune", "fairseq_headprune.*"]),
    package_data={"fairseq_headprune.analysis.report": ["*.html", "*.css", "*.js"]},
    entry_points={"console_scripts": ["headprune = fairseq_headprune.commands:main"]},
    install_requires=[
        f"ve-fairseq==0.12.3; {_wheel}",
        f"fairseq-fixed==0.12.3.1; {_no_wheel}",
        "torch>=2.0",
        "numpy",
        "sacrebleu>=2.0",
        "sacremoses",
        "subword-nmt",
        "safetensors",
        "sentencepiece",
        "PyYAML",
        "scipy",
        "conllu",
        "tqdm",
    ],
    extras_require={
        "analysis": ["matplotlib>=3.7"],
        "log": ["tensorboard"],
        "parse": ["stanza"],
        "deploy": ["ctranslate2"],
        "dev": ["pytest", "pytest-xdist", "hypothesis", "ruff", "mypy", "types-tqdm"],
    },
)
