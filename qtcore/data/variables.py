"""Names of the variables of binary sets, as far as known.

The files carry no names. Those below follow from the documentation of the original tables and are confirmed by the
data: every group of columns is one-hot, and the counts of the columns are those of the original values (see
``docs/data.md``). Of nips, rcv1 and web nobody published the words behind the columns, so they have no names.
"""


def pixel_names(height: int, width: int) -> tuple[str, ...]:
    """Names of the pixels of a flat image, row after row."""
    return tuple(f"row {row}, column {column}" for row in range(height) for column in range(width))


def option_names(groups: dict[str, str]) -> tuple[str, ...]:
    """Names of one-hot columns: by group, its options separated by blanks."""
    return tuple(f"{group} {option}" for group, options in groups.items() for option in options.split())


# Numbers are in five bins each. Those of education-num follow from the file itself, where every level of education lies in
# one bin; those of age and hours from UCI's counts of each number, which add up exactly to the columns'. Where the bins of
# fnlwgt (a weight of the census) end is not known; each has a fifth of the rows.
ADULT = option_names(
    {
        "age": "17-25 26-32 33-40 41-49 50-90",
        "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
        "fnlwgt": "lowest-fifth 2nd-fifth 3rd-fifth 4th-fifth highest-fifth",
        "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters "
        "1st-4th 10th Doctorate 5th-6th Preschool",
        "education-num": "1-8 9 10 11-12 13-16",
        "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse",
        "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
        "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
        "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
        "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
        "sex": "Female Male",
        "capital-gain": "none some",
        "capital-loss": "none some",
        "hours-per-week": "1-34 35-39 40 41-47 48-99",
        "native-country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US India Japan Greece South "
        "China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
        "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia "
        "El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
    }
)

# UCI: squares a1 … a6, b1 … g6 (column, row from below); x moved first.
CONNECT4 = tuple(f"{column}{row} {state}" for column in "abcdefg" for row in range(1, 7) for state in ("x", "empty", "o"))

# UCI: 30 bases before and 30 after the point in question; T is the absence of the other three.
DNA = tuple(f"base {position:+d} is {base}" for position in (*range(-30, 0), *range(1, 31)) for base in "ACG")

# The options of a group stand in the order of a hash table keyed by UCI's one-letter codes (c before b, m before l,
# o before n). It explains every column whose count is unique in its group, and so tells the few equal counts apart.
MUSHROOMS = option_names(
    {
        "cap-shape": "conical bell flat knobbed sunken convex",
        "cap-surface": "scaly smooth grooves fibrous",
        "cap-color": "cinnamon buff red gray brown pink green purple white yellow",
        "bruises": "yes no",
        "odor": "almond creosote foul musty anise none pungent spicy fishy",
        "gill-attachment": "attached free",
        "gill-spacing": "close crowded",
        "gill-size": "broad narrow",
        "gill-color": "buff red gray chocolate black orange brown pink green purple white yellow",
        "stalk-shape": "enlarging tapering",
        "stalk-surface-above-ring": "scaly smooth silky fibrous",
        "stalk-surface-below-ring": "scaly smooth silky fibrous",
        "stalk-color-above-ring": "cinnamon buff red gray orange brown pink white yellow",
        "stalk-color-below-ring": "cinnamon buff red gray orange brown pink white yellow",
        "veil-type": "partial",
        "veil-color": "yellow orange white brown",
        "ring-number": "two one none",
        "ring-type": "pendant none evanescent large flaring",
        "spore-print-color": "buff chocolate black orange brown green purple white yellow",
        "population": "abundant clustered numerous scattered several solitary",
        "habitat": "woods grasses meadows leaves paths urban waste",
    }
)
