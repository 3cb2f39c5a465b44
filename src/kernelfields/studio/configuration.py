"""Labelling configurations of Label Studio: the control tag that a model answers, and the object that it labels.

    <View>
      <Labels name="label" toName="text"><Label value="PER"/></Labels>     control: the labels to choose
      <Text name="text" value="$text"/>                                     object: the displayed key of task data
    </View>

A label is written into results by its ``alias``, if it has one. ``predicted_values`` lists the labels of the model,
separated by commas, that correspond to it.

Raises ConfigurationError for invalid configurations, for those without a tag that suits the model, and for data that
would have to be loaded from elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from xml.etree import ElementTree

#: The objects that control tags may label here.
OBJECTS = {"Labels": ("Text",), "TimeSeriesLabels": ("TimeSeries",), "Choices": ("Text", "TimeSeries", "Table")}
_LONGEST = 1_000_000


class ConfigurationError(ValueError):
    """The model does not support a labelling configuration."""


@dataclass(frozen=True)
class Control:
    """A control tag and its object.

    Attributes
    ----------
    tag : of the control, such as "Labels"
    name, to_name : of the control and of its object
    object : tag of the object, such as "Text"
    key : under which the data of a task have it
    labels : names in results by names of the model
    columns, time : of a time series; the columns are those of its channels
    is_multiple : whether several choices may be taken
    """

    tag: str
    name: str
    to_name: str
    object: str
    key: str
    labels: dict[str, str]
    columns: tuple[str, ...] = ()
    time: str | None = None
    is_multiple: bool = False

    @property
    def names(self) -> dict[str, str]:
        """The names of the model by the names in results; the first if several have the same."""
        return {shown: own for own, shown in reversed(self.labels.items())}

    def __str__(self) -> str:
        return f"<{self.tag} name={self.name!r}>"


def find_control(text: object, tags: Collection[str], name: str | None = None) -> Control:
    """Return the control of a configuration with a tag in ``tags``; ``name`` selects among several."""
    root = _parse(text)
    objects = {element.get("name"): element for element in root.iter() if element.get("value", "").startswith("$")}
    controls = [element for element in root.iter() if element.get("toName")]
    wanted = " or ".join(f"<{tag}>" for tag in tags)
    if name is not None:
        controls = [element for element in controls if element.get("name") == name]
        if not controls:
            raise ConfigurationError(f"the labelling configuration has no tag of the name {name!r}")
    fitting = [element for element in controls if element.tag in tags]
    if not fitting:
        found = ", ".join(f"<{element.tag} name={element.get('name')!r}>" for element in controls) or "no control tag"
        raise ConfigurationError(f"the labelling configuration has {found}, and this model answers {wanted}")
    if len(fitting) > 1:
        listed = ", ".join(repr(element.get("name")) for element in fitting)
        raise ConfigurationError(
            f"the labelling configuration has several tags {wanted}: {listed}; choose by --control"
        )
    element = fitting[0]
    target = objects.get(element.get("toName"))
    allowed = OBJECTS[element.tag]
    if target is None or target.tag not in allowed:
        got = "has no object" if target is None else f"labels a <{target.tag}>"
        expected = " or ".join(f"<{tag}>" for tag in allowed)
        raise ConfigurationError(f"<{element.tag} name={element.get('name')!r}> {got}, expected {expected}")
    return _read_control(element, target)


def _parse(text: object) -> ElementTree.Element:
    """Parse a configuration and return its root."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigurationError(f"the labelling configuration must be a text of XML, got {text!r:.40}")
    if len(text) > _LONGEST:
        raise ConfigurationError(f"the labelling configuration has {len(text):,} characters, at most {_LONGEST:,}")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ConfigurationError("the labelling configuration declares entities of XML, which are not read")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ConfigurationError(f"the labelling configuration is no XML: {error}") from error


def _read_control(element: ElementTree.Element, target: ElementTree.Element) -> Control:
    """Return a control tag with its object."""
    shown = f"<{element.tag} name={element.get('name')!r}>"
    if not element.get("name"):
        raise ConfigurationError(f"a <{element.tag}> has no name")
    if element.get("perRegion") == "true":
        raise ConfigurationError(f"{shown} is asked for each region, and the model answers for each item")
    if element.get("value", "").startswith("$"):
        raise ConfigurationError(f"{shown} takes its labels from the tasks: write them into the configuration")
    kind = target.get("valueType", "url" if target.tag == "TimeSeries" else "text")
    expected = "json" if target.tag == "TimeSeries" else "text"
    if kind != expected and target.tag != "Table":
        raise ConfigurationError(
            f'<{target.tag} name={target.get("name")!r}> has valueType="{kind}", and nothing is loaded from elsewhere: '
            f'put the data into the tasks and write valueType="{expected}"'
        )
    labels = _read_labels(element, shown)
    columns = tuple(channel.get("column", "") for channel in target.iter("Channel"))
    if target.tag == "TimeSeries" and (not columns or not all(columns)):
        raise ConfigurationError(f"<TimeSeries name={target.get('name')!r}> has no <Channel column=...>")
    return Control(
        element.tag,
        element.get("name", ""),
        element.get("toName", ""),
        target.tag,
        target.get("value", "")[1:],
        labels,
        columns=columns,
        time=target.get("timeColumn") if target.tag == "TimeSeries" else None,
        is_multiple=element.tag == "Choices" and element.get("choice") == "multiple",
    )


def _read_labels(element: ElementTree.Element, shown: str) -> dict[str, str]:
    """Return the names of labels in results by the names of the model."""
    child = "Choice" if element.tag == "Choices" else "Label"
    labels: dict[str, str] = {}
    for each in element.iter(child):
        if not (value := each.get("value", "")):
            raise ConfigurationError(f"{shown} has a <{child}> without a value")
        result = each.get("alias") or value
        own = [name for part in each.get("predicted_values", "").split(",") if (name := part.strip())]
        for name in own or [value]:
            if labels.setdefault(name, result) != result:
                raise ConfigurationError(f"{shown} has the label {name!r} twice")
    if not labels:
        raise ConfigurationError(f"{shown} has no <{child}>")
    return labels


def find_outside_label(control: Control, types: Iterable[object], *, allowed: bool) -> str | None:
    """Return the label of positions without a region: the only type that the control lacks, or None.

    Raises ConfigurationError if there are several such labels, or one that is not ``allowed``.
    """
    missing = [str(kind) for kind in types if str(kind) not in control.labels]
    if len(missing) > 1 or (missing and not allowed):
        child = "Choice" if control.tag == "Choices" else "Label"
        raise ConfigurationError(
            f'{control} lacks labels that the model predicts: {", ".join(missing)}; add <{child} value="{missing[0]}"/>'
        )
    return missing[0] if missing else None
