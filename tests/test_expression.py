import pytest

from uproar.errors import BadInput
from uproar.expression import Call, parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("grad", "grad"),
        ("sg_sq( ig )", "sg_sq(ig)"),
        ("gaussian(sq(grad),sigma=2)", "gaussian(sq(grad), sigma=2)"),
        ("sg(grad, sigma=0.10, samples=20)", "sg(grad, samples=20, sigma=0.1)"),
        ("captum:Saliency(abs=false)", "captum:Saliency(abs=false)"),
        ("my_net.py:build(width=8)", "my_net.py:build(width=8)"),
        ("../nets/my.py:build", "../nets/my.py:build"),
        ('ep(areas=[0.1, .2], name="two words")', 'ep(areas=[0.1, 0.2], name="two words")'),
        ("f(a=-1, b=1e-3, c=none, d=true)", "f(a=-1, b=0.001, c=none, d=true)"),
        ("f()", "f"),
    ],
)
def test_a_text_is_read_and_written_in_one_canonical_form(text, canonical):
    call = parse(text)
    assert str(call) == canonical
    assert parse(str(call)) == call


def test_equal_calls_are_equal_whatever_the_order_of_their_options():
    assert parse("sg(grad, a=1, b=2)") == parse("sg(grad,b=2,a=1)")
    assert parse("sg(grad)") != parse("sg(ig)")
    assert {parse("a(b)"): 1}[Call("a", (Call("b"),))] == 1


@pytest.mark.parametrize(
    "text", ["", "grad)", "sg(grad", "sg(grad,,)", "f(a=)", "f(a=1, a=2)", "3", "f(%)", "f(1)", "a b", "f(a=[1"]
)
def test_what_cannot_be_read_is_refused_with_the_text_in_the_sentence(text):
    with pytest.raises(BadInput, match="Cannot read"):
        parse(text)


def test_walk_meets_every_inner_call():
    assert [call.name for call in parse("gaussian(sg(sq(ig)))").walk()] == ["gaussian", "sg", "sq", "ig"]
