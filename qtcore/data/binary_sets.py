"""The eight binary sets of the paper's Table 1, one entry each."""

from qtcore.data.binary import BinarySet, StandIn
from qtcore.data.originals import GITHUB, Hash, RemoteFile
from qtcore.data.variables import ADULT, CONNECT4, DNA, MUSHROOMS, pixel_names

_MADE = f"{GITHUB}/mgermain/MADE/514849eb9451311c02049f9e2d9a17fac589996a/datasets"
_UCLA = f"{GITHUB}/UCLA-StarAI/Density-Estimation-Datasets/37d53c1a8ba488d0a39e8c64bd3387577080b143/datasets"

_TEST_ORDER = "train and validation rows are in the standard order, the test rows are the standard set in another order"
_OWN_SPLIT = "the test rows are the standard ones, the split of the others into train and validation is our own (seed 0)"


def _made(name: str, check: Hash, digest: str) -> tuple[RemoteFile, ...]:
    return (RemoteFile(f"made/{name}.npz", (f"{_MADE}/{name}.npz",), check, digest),)


def _rcv1(split: str, digest: str) -> RemoteFile:
    name = f"rcv1.{split}.data"
    return RemoteFile(f"ucla/{name}", (f"{_UCLA}/rcv1/{name}",), "git blob id", digest)


_ENTRIES = (
    BinarySet(
        name="adult",
        title="Adult",
        origin="UCI Adult, in LIBSVM's one-hot form",
        files=_made("adult", "git blob id", "cf506ae6b4a4b818a92a6c951d334e61eeb27d81"),
        n_variables=123,
        rows=(5000, 1414, 26147),
        prepared="ea0ab7f9367935854c8b4960e5a1493b091b019f00ca4b24de07918cf3a9933f",
        row_set="199c9c51dcbbc5a7dc1bb9f9535a355ecb4361a04d5d3ef30972d5826ef8c4a4",
        ones=451592,
        rearranged=_TEST_ORDER,
        variable_names=ADULT,
    ),
    BinarySet(
        name="connect4",
        title="Connect 4",
        short_title="Conn4",
        origin="UCI Connect-4",
        files=_made("connect4", "git blob id", "4685318ab6aabc98eec09b93ad4fa5debc24ec93"),
        n_variables=126,
        rows=(16000, 4000, 47557),
        prepared="3f02a83d27cc1536d324f011b9d58c1e574a2d754b779638b29af0c80f4539a1",
        row_set="87ccce377b07012a3d995bcd1c107e87fbf3e20d89ce952785727dde7e420d12",
        ones=2837394,
        rearranged=_TEST_ORDER,
        variable_names=CONNECT4,
    ),
    BinarySet(
        name="dna",
        title="DNA",
        origin="Statlog DNA (UCI Splice)",
        files=_made("dna", "sha256", "df2d2e7ce1469edfead15e41024e108d64f1b4633cfecfc40ef7107cc22c895c"),
        n_variables=180,
        rows=(1400, 600, 1186),
        prepared="e6eacfc736a1f459fc2a90dbb5a5f0157ad6084f6efd5210375779c3f15b12b2",
        row_set="f35a6b52a5d646d783ffc55fb5b9e31b0d52b95ff9b2437ca9f8dec6934138e5",
        ones=144902,
        variable_names=DNA,
    ),
    BinarySet(
        name="mushrooms",
        title="Mushrooms",
        short_title="Mushr",
        origin="UCI Mushroom",
        files=_made("mushrooms", "sha256", "4130f1defa3033911fe746a3ab1bb22b0c812bb29e68391a0fbc2d65bab6ae74"),
        n_variables=112,
        rows=(2000, 500, 5624),
        prepared="8bea93319938a6c965b7c2eddd102dba514e96f35380df77f666a0218ad4ea8a",
        row_set="3b794ce50e76635de40135885774b9502070580a2ea3782942c5c66b4599d405",
        ones=170604,
        variable_names=MUSHROOMS,
    ),
    BinarySet(
        name="nips",
        title="NIPS",
        origin="words in NIPS 0–12 papers",
        files=_made("nips", "sha256", "dbf3b659a49670957c0851971bd51ff952a657f010581d12f6c1e2dca8907b20"),
        n_variables=500,
        rows=(400, 100, 1240),
        prepared="6458a85d08462911dfada7b9da5cdcd772dcf356f41ed39a9acaa240ef76d223",
        row_set="80a93ddbda875cdc54303cbfa774bc18e70fdeafdbd7e80289f3ed51cb3a8e86",
        ones=319072,
    ),
    BinarySet(
        name="ocr_letters",
        title="OCR",
        origin="Stanford OCR letters",
        files=_made("ocr_letters", "git blob id", "b472383a2ddeddbc87b4e3019a3bd47736bddb37"),
        n_variables=128,
        rows=(32152, 10000, 10000),
        prepared="166ec212834245eb8b3266bfd5b765379716359e16e514b5aed0ce9714e74c34",
        row_set="280f8911b91d496ea0995fa17633a9b7c05bf96f9a6d1c651e8524d00af1d812",
        ones=1466486,
        image_shape=(16, 8),
        variable_names=pixel_names(16, 8),
    ),
    BinarySet(
        name="rcv1",
        title="RCV1",
        origin="words in Reuters news",
        files=(
            _rcv1("train", "25ee49d9df5566669d5994db5acf32844d8f4f7b"),
            _rcv1("valid", "890d4558bcb738690ef775a4fbdeb7ef9511d377"),
            _rcv1("test", "0d9b096f4b8a62dec4634f3f87a73e292b5cffc8"),
        ),
        note="UCLA's original files.",
        n_variables=150,
        rows=(40000, 10000, 150000),
        stand_in=StandIn(
            stem="rcv1_valid_only",
            content="f453bec4d6609c90985464b8b35ae119e1b0a9c306ce7a89738cd7bcdb336f71",
            split_sizes=(8000, 1000, 1000),
            ones=207003,
            note="Only the 10,000 validation rows are here, split 8000/1000/1000, so no figure compares with the paper; "
            "`python -m qtcore.fetch rcv1` gets the whole set.",
        ),
    ),
    BinarySet(
        name="web",
        title="Web",
        origin="words in web pages",
        files=_made("web", "git blob id", "a565424fc5782cb99d79788618cd6c332440a8a1"),
        n_variables=300,
        rows=(14000, 3188, 32561),
        prepared="1c3bc38e119f9140ea13d9ead0251eb7195fa676e611669983b541868c874bf1",
        row_set="12b3739d38a1dc734fb331abb69e4c6edabd69ff7def9bee36874e96c6fcd787",
        ones=579586,
        rearranged=_OWN_SPLIT,
    ),
)

SETS: dict[str, BinarySet] = {entry.name: entry for entry in _ENTRIES}
"""The binary sets by name."""
