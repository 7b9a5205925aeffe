const LETTER = /\p{L}/u;
const LEFTWARDS = /\p{Script=Arabic}|\p{Script=Hebrew}|\p{Script=Syriac}|\p{Script=Thaana}|\p{Script=Nko}|\p{Script=Adlam}|\p{Script=Mandaic}|\p{Script=Samaritan}/u;

/** That of the first letter, as dir="auto" has it; that looks at no isolated token, of which our sentences consist. */
export function direction(text: string): 'ltr' | 'rtl' {
  const first = LETTER.exec(text)?.[0] ?? '';
  return LEFTWARDS.test(first) ? 'rtl' : 'ltr';
}
