import pytest

from mixlab.formats import detect_language

# One sentence in each language that IFEval asks for.
TEXTS = {
    "en": "I would like to go to the zoo with my friends because it is fun.",
    "es": "Me gusta ir al parque con mis amigos porque es muy divertido y hay árboles.",
    "pt": "Eu gosto de ir ao parque com os meus amigos porque não é muito longe.",
    "fr": "Je vais au parc avec mes amis parce que c'est très amusant pour nous.",
    "de": "Ich gehe mit meinen Freunden in den Park, weil es dort schön ist.",
    "it": "Mi piace andare al parco con gli amici perché è molto bello.",
    "pl": "Lubię chodzić do parku z przyjaciółmi, ponieważ jest to bardzo miłe i nie jest drogie.",
    "vi": "Tôi thích đi công viên với bạn bè của tôi vì nó rất vui và không xa.",
    "sw": "Ninapenda kwenda katika bustani na marafiki zangu kwa sababu ni nzuri sana.",
    "fi": "Minä haluan mennä puistoon, koska se on hauskaa ja siellä ei ole kylmä.",
    "ru": "Я люблю гулять в парке с друзьями, потому что это весело и мы все рады.",
    "uk": "Я люблю гуляти в парку з друзями, тому що це весело і цікаво.",
    "bg": "Обичам да се разхождам в парка с приятели, защото е забавно и не е далече.",
    "ar": "أحب الذهاب إلى الحديقة مع أصدقائي لأنها ممتعة.",
    "fa": "من دوست دارم با دوستانم به پارک بروم چون خیلی سرگرم کننده است.",
    "ur": "مجھے دوستوں کے ساتھ پارک جانا پسند ہے کیونکہ یہ مزے دار ہے۔",
    "hi": "मुझे दोस्तों के साथ पार्क में जाना पसंद है क्योंकि यह मजेदार है और पास में है।",
    "mr": "मला मित्रांसोबत बागेत जायला आवडते कारण ते मजेदार आहे आणि जवळ आहे.",
    "ne": "मलाई साथीहरूसँग पार्क जान मन पर्छ किनभने यो रमाइलो छ र नजिक पनि छ।",
    "ko": "저는 친구들과 공원에 가는 것을 좋아합니다.",
    "ja": "私は友達と公園に行くのが好きです。",
    "th": "ฉันชอบไปสวนสาธารณะกับเพื่อน",
    "bn": "আমি বন্ধুদের সাথে পার্কে যেতে পছন্দ করি।",
    "ta": "நான் நண்பர்களுடன் பூங்காவிற்கு செல்ல விரும்புகிறேன்.",
    "te": "నేను స్నేహితులతో పార్కుకు వెళ్లడం ఇష్టం.",
    "kn": "ನಾನು ಸ್ನೇಹಿತರೊಂದಿಗೆ ಉದ್ಯಾನವನಕ್ಕೆ ಹೋಗಲು ಇಷ್ಟಪಡುತ್ತೇನೆ.",
    "gu": "મને મિત્રો સાથે પાર્કમાં જવું ગમે છે.",
    "pa": "ਮੈਨੂੰ ਦੋਸਤਾਂ ਨਾਲ ਪਾਰਕ ਜਾਣਾ ਪਸੰਦ ਹੈ।",
    "ml": "എനിക്ക് സുഹൃത്തുക്കളോടൊപ്പം പാർക്കിൽ പോകാൻ ഇഷ്ടമാണ്.",
    "he": "אני אוהב ללכת לפארק עם חברים.",
    "zh": "我喜欢和朋友去公园。",
}


@pytest.mark.parametrize("language", TEXTS)
def test_each_language_is_told(language: str) -> None:
    assert detect_language(TEXTS[language]) == language


@pytest.mark.parametrize("text", ["", "42", "!!!", "tiger", "Xylophon Brumm Zzz", "no"])
def test_thin_evidence_gives_no_answer(text: str) -> None:
    assert detect_language(text) is None


def test_the_same_text_always_gives_the_same_answer() -> None:
    mixed = "La casa de la montaña is the house of the mountain."
    assert len({detect_language(mixed) for _ in range(20)}) == 1
