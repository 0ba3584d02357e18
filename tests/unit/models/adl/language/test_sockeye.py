"""The dialect of the original implementation gives the specifications of the paper's language."""

import pytest

from convs2s.common.errors import TextError
from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.architectures import ARCHITECTURES

SELF, SOURCE, FF = (
    "res(norm->mh_dot_self_att)",
    "res(norm->mh_dot_att)",
    "res(norm->ff(2048)->linear)",
)
RNN, RELU = "res(norm->rnn->dropout)", "res(norm->cnn(512,3,relu))"
BIRNN = "res(norm->birnn->dropout)"


def repeated(*parts):
    return f"pos->repeat(6,{'->'.join(parts)})->norm"


NAMED = {
    "adl_transformer": (repeated(SELF, FF), repeated(SELF, SOURCE, FF)),
    "adl_rnn": (
        "dropout->res(birnn->dropout)->repeat(5,res(rnn->dropout))",
        "dropout->repeat(6,res(rnn->dropout))->res(mh_dot_att(heads=1))->res(ff(2048)->linear)",
    ),
    "adl_rnn_mh_pos": (
        "pos->res(birnn->dropout)->repeat(5,res(rnn->dropout))",
        "pos->repeat(6,res(rnn->dropout))->res(mh_dot_att)->res(ff(2048)->linear)",
    ),
    "adl_rnn_mh_pos_norm_multi_att_1h": (
        f"pos->{BIRNN}->repeat(5,{RNN})->norm",
        f"pos->repeat(6,{RNN}->res(norm->mh_dot_att(1)))->{FF}->norm",
    ),
    "adl_rnn_rnn": (
        f"pos->{BIRNN}->{FF}->repeat(5,{RNN}->{FF})->norm",
        repeated(RNN, SOURCE, FF),
    ),
    "adl_cnn_glu": ("pos->repeat(6,res(cnn))", "pos->repeat(6,res(cnn)->res(mh_dot_att(heads=1)))"),
    # The authors' string, which lacks the last parenthesis.
    "adl_cnn_glu_nested": (
        "pos->repeat(6,res(cnn))",
        "pos->repeat(6,res(cnn->res(mh_dot_att(heads=1)))" + ")",
    ),
    "adl_cnn_glu_norm_mh": (repeated("res(norm->cnn)"), repeated("res(norm->cnn)", SOURCE)),
    "adl_cnn_relu_norm_mh_ff": (repeated(RELU, FF), repeated(RELU, SOURCE, FF)),
    "adl_self_att_combined": (
        repeated(SELF, FF),
        f"pos->repeat(2,{SELF}->{SOURCE}->{FF}->{RNN}->{SOURCE}->{FF}->{RELU}->{SOURCE}->{FF})->norm",
    ),
    "adl_self_att_none": (repeated(SELF, FF), repeated(SOURCE, FF)),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_architectures_are_the_same_in_both_dialects(name):
    assert resolve(*NAMED[name], dialect="sockeye") == ARCHITECTURES[name].resolve()


@pytest.mark.parametrize(
    "sockeye, paper",
    [
        ("ff", "ff"),
        ("ff(8,0.3,swish1)", "ff(8, swish, 0.3)"),
        ("ff(8, act_type=softrelu)", "ff(8, softplus)"),
        ("linear", "linear -> dropout"),
        ("linear(8,0.)", "linear(8) -> dropout(0)"),
        ("linear(8, no_bias=True)", "linear(8, bias=false) -> dropout"),
        ("linear(no_bias=False)", "linear -> dropout"),
        ("cnn", "cnn(glu) -> dropout"),
        ("cnn(8,5)", "cnn(glu, 5, 8) -> dropout"),
        ("cnn(8,3,tanh,0.2,2,1)", "cnn(tanh, 3, 8, dilation=2) -> dropout(0.2)"),
        ("rnn(8, gru)", "rnn(gru, 8)"),
        ("rnn(forget_bias=1.0, norm_states=False)", "rnn(forget_bias=1)"),
        ("birnn(8,lnlstm,0.0,0,0)", "birnn(lnlstm, 8)"),
        ("qrnn(8,5)", "qrnn(8, 5)"),
        ("act", "act"),
        ("act(softrelu)", "act(softplus)"),
        ("pos(16,0.3,False)", "pos(0.3, scale=false)"),
        ("learn_pos", "learn_pos"),
        ("dropout(0.3)", "dropout(0.3)"),
        ("highway(rnn->id)", "highway(rnn -> id)"),
        ("mh_dot_self_att", "mh_dot_self_att(8) -> dropout"),
        ("mh_dot_self_att(2,0.3)", "mh_dot_self_att(2, dropout=0.3) -> dropout(0.3)"),
        ("mh_dot_self_att(2,0.3,0.4)", "mh_dot_self_att(2, dropout=0.4) -> dropout(0.3)"),
        ("mh_dot_self_att(dropout_attention=0.4)", "mh_dot_self_att(8, dropout=0.4) -> dropout"),
        (
            "mh_dot_self_att(num_hidden=16,att_num_hidden=32)",
            "mh_dot_self_att(8, d_p=32) -> dropout",
        ),
        ("repeat(2,res(cnn))", "repeat(2, res(cnn(glu) -> dropout))"),
    ],
)
def test_layers(sockeye, paper):
    settings = Settings(model_dim=16, attention_heads=4)
    translated = resolve(sockeye, "id", settings, "sockeye").encoder
    assert translated == resolve(paper, "id", settings).encoder


@pytest.mark.parametrize(
    "text, column, message",
    [
        ("res_nd(rnn)", 1, "'res_nd' (did you mean 'res'?)"),
        ("pos->ffl", 6, "'ffl' (did you mean 'ff'?)"),
        ("pool(3)", 1, "it would change the number of source positions"),
        ("cnn(stride=2)", 5, "'stride' must be 1"),
        ("rnn(dropout_inputs=0.1)", 5, "'dropout_inputs' must be 0: dropout inside a cell"),
        ("rnn(hidden=3)", 5, "'rnn' has no argument 'hidden'"),
        ("pos(512)", 5, "'num_embed' must be 16"),
        ("learn_pos(max_seq_len=100)", 11, "'max_seq_len' cannot be given"),
        ("linear(no_bias=yes)", 8, "'no_bias' must be true or false, found 'yes'"),
        ("mh_dot_self_att(5)", 17, "5 heads do not divide 16 channels"),
        ("mh_dot_att", 1, "but this is the encoder"),
        ("rnn(8, foo)", 8, "lnlstm, lngru, found 'foo'"),
        ("rnn(8, lnglstm)", 8, "lnlstm, lngru, found 'lnglstm'"),
        ("rnn(chrono_init=True)", 5, "'rnn' has no argument 'chrono_init'"),
        ("res(3)", 5, "a chain of layers, found '3'"),
        ("repeat(2,res(norm->cn))", 20, "'cn' (did you mean 'cnn'?)"),
    ],
)  # fmt: skip
def test_errors(text, column, message):
    with pytest.raises(TextError) as error:
        resolve(text, "id", Settings(model_dim=16), "sockeye")
    assert message in str(error.value) and error.value.column == column
