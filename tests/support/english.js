// The texts of a page that are left in English, where the interface is Chinese: what is read, and what is heard.
() => {
  const SAME = /\b(softmax|[Cc]oncat|head|norm|log|FFN|qkv|px|ms|W_o|API|PCA|Python|JavaScript|curl|kB|English|Dropout|sqrt|LN|ids|PAD)\b|\b\w*_\w*\b/g;
  // Tokens, names, texts of a person, code, and equations that come from a docstring.
  const SKIPPED = 'script, style, noscript, pre, code, .code, bdi, .words, .mirror, .others button, .past button, textarea, .equation, .plain, .plane text, .beam .label, option, .rest, kbd, [lang=en]';
  const words = (text) => /[A-Za-z]{2}/.test(text.replace(SAME, ''));
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    if (!node.parentElement.closest(SKIPPED) && words(node.data)) found.add(node.data.trim());
  for (const name of ['aria-label', 'title', 'placeholder'])
    for (const element of document.querySelectorAll(`[${name}]`)) {
      const text = element.getAttribute(name);
      if (words(text)) found.add(text);
    }
  return [...found];
}
