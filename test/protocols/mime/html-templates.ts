/**
 * @module Builds HTML of mail in the shapes of the tools that people use. Every visible text is made of words that occur
 * once, so that a test finds a word that is lost, moved or joined to another.
 */
import { seededRandom } from './sample.ts'

type Words = (count?: number) => string

const FILLER = '&#847; &zwnj; &nbsp; &#8199; &shy; &#65279; '.repeat(20)
const HIDDEN = [
  'display:none;max-height:0;overflow:hidden;mso-hide:all',
  'display: none !important; visibility: hidden; font-size: 1px; line-height: 1px',
  'display:none;overflow:hidden;line-height:1px;opacity:0;max-height:0;max-width:0',
  'font-size:0;line-height:0;max-height:0;overflow:hidden',
]
const ROLE = 'role="presentation" border="0" cellpadding="0" cellspacing="0" width="100%"'

const page = (head: string, body: string, type = '<!doctype html>'): string =>
  `${type}<html xmlns="http://www.w3.org/1999/xhtml" xmlns:v="urn:schemas-microsoft-com:vml"><head><meta charset="utf-8"><title>Title</title><!--[if mso]><xml><o:PixelsPerInch>96</o:PixelsPerInch></xml><![endif]-->${head}</head>${body}</html>`
const ghost = (inner: string): string =>
  `<!--[if mso | IE]><table ${ROLE}><tr><td width="300"><![endif]-->${inner}<!--[if mso | IE]></td></tr></table><![endif]-->`
const repeat = (count: number, build: (index: number) => string, between = ''): string =>
  Array.from({ length: count }, (_, index) => build(index)).join(between)

/** One function a tool: the words it shows, the number of repeated parts, the style of its preheader. */
const TOOLS: Readonly<Record<string, (w: Words, count: number, hidden: string) => string>> = {
  mjml: (w, count, hidden) => {
    const column = (inner: string) =>
      ghost(
        `<div class="mj-column-per-50 mj-outlook-group-fix" style="font-size:0px;text-align:left;display:inline-block;vertical-align:top;width:100%;"><table ${ROLE}><tbody>${inner}</tbody></table></div>`,
      )
    const text = () =>
      `<tr><td align="left" style="font-size:0px;padding:10px 25px;word-break:break-word;"><div style="font-family:Arial;font-size:13px;line-height:1;color:#000;">${w(4)} <b>${w()}</b>, ${w(3)}</div></td></tr>`
    const button = () =>
      `<tr><td style="font-size:0px"><table ${ROLE} style="border-collapse:separate;line-height:100%;"><tbody><tr><td bgcolor="#414141"><a href="https://shop.example.test/${w()}" style="display:inline-block;font-size:13px;mso-padding-alt:0px;" target="_blank"> ${w(2)} </a></td></tr></tbody></table></td></tr>`
    return page(
      '<style type="text/css">#outlook a{padding:0}@media only screen and (min-width:480px){.mj-column-per-50{width:50%!important}}</style>',
      `<body style="word-spacing:normal;"><div style="${hidden}">Preview</div><div style="background-color:#eee">${repeat(count, () => `<div style="margin:0 auto;max-width:600px"><table ${ROLE}><tbody><tr><td style="direction:ltr;font-size:0px;padding:20px 0;text-align:center">${column(text() + button())}${column(text())}</td></tr></tbody></table></div>`)}</div></body>`,
    )
  },
  reactEmail: (w, count, hidden) =>
    page(
      '<link rel="preload" as="image" href="a.png"/>',
      `<body><!--$--><div style="${hidden}" data-skip-in-text="true">Preview<div>${FILLER}</div></div><table align="center" ${ROLE} style="max-width:37.5em"><tbody><tr style="width:100%"><td><img alt="Logo" src="a.png" style="display:block;outline:none"/><h1>${w(3)}</h1>${repeat(count, () => `<p style="font-size:16px;margin:16px 0">${w(6)}</p><table align="center" ${ROLE}><tbody style="width:100%"><tr style="width:100%"><td data-id="__react-email-column">${w(2)}</td><td data-id="__react-email-column">${w()}</td></tr></tbody></table>`)}<a href="https://app.example.test" style="line-height:100%;display:inline-block" target="_blank"><span><!--[if mso]><i style="mso-font-width:300%" hidden>&#8202;&#8202;</i><![endif]--></span><span style="max-width:100%;display:inline-block">${w(2)}</span></a><hr style="border:none"/><p>${w(3)}<!-- --> <!-- -->${w()}</p></td></tr></tbody></table><!--/$--></body>`,
      '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">',
    ),
  postmark: (w, count) =>
    page(
      '<style type="text/css" rel="stylesheet" media="all">@import url("https://fonts.example.test/a.css"); body{width:100% !important} .preheader { display: none !important; visibility: hidden; mso-hide: all; } a { color: #3869D4; } @media (prefers-color-scheme: dark) { .attributes { display: none } }</style>',
      `<body><span class="preheader">Preview</span><table class="email-wrapper" ${ROLE}><tr><td align="center"><table class="email-content" ${ROLE}><tr><td class="email-masthead"><a href="https://example.test" class="f-fallback">${w(2)}</a></td></tr><tr><td class="email-body"><h1>${w(2)}</h1><table class="attributes" ${ROLE}>${repeat(count, () => `<tr><td class="attributes_item"><span class="f-fallback"><strong>${w()}:</strong> ${w(2)}</span></td></tr>`)}</table><table class="purchase" ${ROLE}>${repeat(count, () => `<tr><td width="80%"><span class="f-fallback">${w(2)}</span></td><td class="align-right" width="20%"><span class="f-fallback">${w()}</span></td></tr>`)}</table><p class="f-fallback sub">${w(5)}<br>${w(2)}</p></td></tr></table></td></tr></table></body>`,
    ),
  mailchimp: (w, count, hidden) =>
    page(
      '<!--[if gte mso 15]><xml></xml><![endif]--><style>p{margin:10px 0} .mcnPreviewText{display:none !important}</style>',
      `<body><!--*|IF:MC_PREVIEW_TEXT|*--><!--[if !gte mso 9]><!----><span class="mcnPreviewText" style="${hidden}">Preview</span><!--<![endif]--><!--*|END:IF|*--><center><table id="bodyTable" ${ROLE}><tr><td><!--[if (gte mso 9)|(IE)]><table><tr><td><![endif]--><table class="templateContainer" ${ROLE}>${repeat(count, () => `<tr><td class="mcnTextBlockInner"><!--[if mso]><table><tr><![endif]--><table class="mcnTextContentContainer" align="left"><tbody><tr><td class="mcnTextContent" style="padding:0 18px"><h2>${w(2)}</h2>${w(5)}&nbsp;<em>${w()}</em>. ${w()}<ul><li>${w(2)}</li><li>${w()}</li></ul></td></tr></tbody></table></td></tr>`)}</table><em>${w(2)}</em><br><br><a href="*|UNSUB|*">${w()}</a> | <a href="*|FORWARD|*">${w()}</a></td></tr></table></center></body>`,
    ),
  foundation: (w, count) =>
    page(
      '<style>@media only screen{html{min-height:100%}} .show-for-large{color:red} .hide-for-large,.wrapper .x{display:none !important;mso-hide:all;max-height:0}</style>',
      `<body><table class="body" data-made-with-foundation><tr><td class="float-center" align="center" valign="top"><center data-parsed="">${repeat(count, () => `<table class="row"><tbody><tr><th class="small-12 large-6 columns first"><table><tr><th><h4>${w(2)}</h4><p>${w(4)}</p></th></tr></table></th><th class="small-12 large-6 columns last"><table><tr><th><p class="hide-for-large">Small</p><table class="button large"><tr><td><table><tr><td><a href="#">${w()}</a></td></tr></table></td></tr></table></th><th class="expander"></th></tr></table></th></tr></tbody></table><table class="spacer"><tbody><tr><td height="16px" style="font-size:16px;line-height:16px;">&#xA0;</td></tr></tbody></table>`)}<menu class="menu"><table><tr><th class="menu-item"><a href="https://a.test">${w()}</a></th><th class="menu-item"><a href="https://b.test">${w()}</a></th></tr></table></menu></center></td></tr></table><div style="display:none; white-space:nowrap; font:15px courier; line-height:0;"> &nbsp; &nbsp; </div></body>`,
    ),
  outlook: (w, count) =>
    page(
      '<style>p.MsoNormal{margin:0}@page WordSection1{size:8.5in 11.0in}</style>',
      `<body lang=EN-GB link="#0563C1"><div class=WordSection1>${repeat(count, () => `<p class=MsoNormal><span style='mso-fareast-language:EN-US'>${w(4)}<o:p></o:p></span></p><p class=MsoNormal><o:p>&nbsp;</o:p></p><p class=MsoListParagraph style='mso-list:l0 level1 lfo1'><![if !supportLists]><span style='mso-list:Ignore'>${w()}<span style='font:7.0pt "Times New Roman"'>&nbsp;&nbsp; </span></span><![endif]>${w(2)}</p><!--[if mso]><v:roundrect href="https://a.test"><center>Button</center></v:roundrect><![endif]--><!--[if !mso]><!--><a href="https://a.test" style="display:inline-block;mso-hide:all">${w(2)}</a><!--<![endif]--><table class=MsoTableGrid border=1><tr><td width=200 valign=top><p class=MsoNormal>${w()}</p></td><td><p class=MsoNormal>${w()}</p></td></tr></table>`)}</div></body>`,
      '',
    ),
  gmailForward: (w, count) =>
    `<div dir="ltr">${w(3)}<br><br><div class="gmail_quote gmail_quote_container"><div dir="ltr" class="gmail_attr">---------- ${w()} ---------<br>${w()}: <strong class="gmail_sendername" dir="auto">${w()}</strong> <span dir="auto">&lt;<a href="mailto:a@b.test">${w()}</a>&gt;</span><br>${w()}<br></div><br>${repeat(count, () => `<u></u><div style="overflow-wrap:break-word"><blockquote type="cite">${w(3)}<div>${w(2)}</div></blockquote><div><br></div><div>${w()} <wbr>${w()}</div></div>`)}</div></div>\r\n<br clear="all"><div>${w()}</div>`,
  receipt: (w, count, hidden) =>
    page(
      '',
      `<body bgcolor=f6f9fc><div style="${hidden}">Preview ${FILLER}</div><table class="st-Wrapper"><tr><td><table><tr><td style="border:0;margin:0;padding:0;font-size:1px;line-height:1px" height="20"><div class="st-Spacer">&nbsp;</div></td></tr>${repeat(count, () => `<tr><td class="Spacer" width="64">&zwnj;</td><td class="Table-description">${w(2)} × 2</td><td class="Spacer" style="font-size:0">&nbsp;</td><td class="Table-amount" align=right>${w()}&nbsp;EUR<tr><td colspan=3 style="border-top:1px solid"><tr><td>${w()}<td>${w()}`)}</table></td></tr></table><dl><dt>${w()}<dd>${w()}<dt>${w()}</dt><dd>${w()}</dd></dl></body></html>\n<p>${w(2)} <a href=https://r.test/a?b=1&c=2>${w()}</a></p>`,
      '<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01//EN">',
    ),
  survey: (w, count, hidden) =>
    page(
      '<style>@media(max-width:600px){.m{display:block!important}}.m{display:none}</style>',
      `<body><p style="${hidden}">Preview<p>${w()}<div hidden>Hidden<div>Hidden</div></div>${repeat(count, () => `<form action="https://s.test"><fieldset><legend>${w()}</legend><label for=a>${w()}</label><select id=a><option>${w()}<option>${w()}</select><ol><li>${w()}<li hidden>Hidden<li>${w()}<ul><li>${w()}</ul></ol><span style="display:block">${w()}</span><span>${w()}</span><div style="display:inline-block">${w()}</div><b style="display:block">${w()}</b>${w()}</form><div class="m">Mobile</div><pre>${w()}  ${w()}\n${w()}</pre><svg width=9 height=9><title>Icon</title><path d="M0 0"/></svg><figure><img src=a.png alt=A><figcaption>${w()}</figcaption></figure>`)}<template><p>Hidden</p></template><details open><summary>${w()}</summary>${w()}</details></body>`,
    ),
  international: (w, count) =>
    page(
      '',
      `<body dir=rtl>${'<table><tbody><tr><td><div>'.repeat(count * 10)}<p>می&zwnj;خواهم ${w()} شرکت&zwnj;ها</p><p lang=ja>日本語の<ruby>漢字</ruby>、${w()}</p><p>Donau&shy;dampf&shy;schiff ${w()} 👩&zwj;🚒 x<sup>2</sup> H<sub>2</sub>O &euro;&nbsp;5 &lt;b&gt; &copy 2026 AT&T a < b</p>${'</div></td></tr></tbody></table>'.repeat(count * 10)}<address>${w()}<br/>${w()}<BR>${w()}</address></body>`,
    ),
}

export interface Template {
  readonly name: string
  readonly html: string
}

/** @param perTool templates of each tool, with different lengths and styles */
export function buildTemplates(perTool: number): Template[] {
  return Object.entries(TOOLS).flatMap(([tool, build], toolNumber) =>
    Array.from({ length: perTool }, (_, index) => {
      const random = seededRandom(toolNumber * perTool + index + 1)
      let last = 0
      const words: Words = (count = 1) => repeat(count, () => `w${++last}${'abcdefgh'.slice(0, 1 + random(7))}`, ' ')
      return { name: `${tool} ${index}`, html: build(words, 1 + index, HIDDEN[index % HIDDEN.length] ?? '') }
    }),
  )
}
