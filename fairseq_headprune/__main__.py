"""``python -m fairseq_headprune`` prints the folder to give as --user-dir."""

from pathlib import Path

if __name__ == "__main__":
    print(Path(__file__).resolve().parent)
