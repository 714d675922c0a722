/**
 * @module Renders the email that requests a confirmation: subject, text and HTML. Pure. The email names the list
 * and its sender, and says that ignoring it is enough to stay off the list: someone else may have entered the address.
 */
import { formatSender, renderLines, renderLogo, renderSender } from '#features/setup/wording/brand.ts'
import { fillHtml, fillPlain } from '#features/setup/wording/languages.ts'
import type { ShownTexts } from '#features/setup/wording/wording.ts'
import { type Html, html } from '#platform/http/html.ts'

/** How long the link of a confirmation email works. */
export const CONFIRMATION_DAYS = 7

export interface ConfirmationMail {
  readonly listName: string
  readonly address: string
  readonly senderDomain: string
  readonly url: string
  readonly days: number
}

/** Returns the subject and bodies of the email in the language of the texts. */
export function renderConfirmationMail(
  texts: ShownTexts,
  mail: ConfirmationMail,
): {
  readonly subject: string
  readonly text: string
  readonly html: string
} {
  const oneLineMail = { ...mail, listName: toOneLine(mail.listName) }
  const subject = toOneLine(texts.mail_subject)
  return { subject, text: renderText(texts, oneLineMail), html: renderHtml(texts, subject, oneLineMail) }
}

// C0, DEL, C1, the two Unicode line ends, and characters that change the direction of the text after them.
const CONTROLS = /[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+/g

const toOneLine = (text: string): string => text.toWellFormed().replace(CONTROLS, ' ').trim()

/** The number of days with its unit, in the plural form of the language: 1 day, 7 Tage, 5 dni. */
const formatDays = ({ language }: ShownTexts, days: number): string =>
  new Intl.NumberFormat(language, { style: 'unit', unit: 'day', unitDisplay: 'long' }).format(days)

function renderText(texts: ShownTexts, { listName, address, senderDomain, url, days }: ConfirmationMail): string {
  return `${texts.mail_intro}

${fillPlain(texts.mail_reason, { address, list: listName, sender: formatSender(texts, senderDomain) })}

${texts.mail_confirm_here}

${url}

${fillPlain(texts.mail_link_works, { days: formatDays(texts, days) })}

${texts.mail_if_not_you}
${texts.mail_footer === undefined ? '' : `\n${texts.mail_footer}\n`}`
}

/** Uses only tables and inline styles, because every mail program shows them. */
function renderHtml(texts: ShownTexts, title: string, mail: ConfirmationMail): string {
  const { listName, address, senderDomain, url, days } = mail
  const names = {
    address: html`<strong><bdi>${address}</bdi></strong>`,
    list: html`<bdi>${listName}</bdi>`,
    sender: renderSender(texts, senderDomain),
  }
  return html`<!doctype html>
<html lang="${texts.language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
</head>
<body style="margin:0;padding:24px 12px;background:#eef0f3;color:#1b1f24;font-family:Arial,Helvetica,sans-serif;font-size:16px;line-height:24px">
<table role="presentation" align="center" width="100%" cellpadding="0" cellspacing="0" style="max-width:544px;margin:0 auto;background:#ffffff">
<tr><td style="padding:32px 24px;overflow-wrap:anywhere;word-break:break-word">
${renderMailBrand(texts)}<p dir="auto" style="margin:0 0 16px">${renderLines(texts.mail_intro)}</p>
<p style="margin:0 0 24px">${fillHtml(texts.mail_reason, names)}</p>
<p style="margin:0 0 24px"><a href="${url}" style="display:inline-block;padding:12px 24px;border-radius:8px;background:#0b57d0;color:#ffffff;font-weight:bold;text-decoration:none">${texts.mail_button}</a></p>
<p style="margin:0 0 24px;font-size:14px;line-height:20px;color:#525a65">${fillPlain(texts.mail_or_open, { days: formatDays(texts, days) })}<br><a href="${url}" style="color:#0b57d0;word-break:break-all">${url}</a></p>
<p style="margin:0;padding-top:24px;border-top:1px solid #d5dae1">${texts.mail_if_not_you}</p>
${texts.mail_footer !== undefined && html`<p dir="auto" style="margin:24px 0 0;font-size:14px;line-height:20px;color:#525a65">${renderLines(texts.mail_footer)}</p>\n`}</td></tr>
</table>
</body>
</html>
`.toString()
}

/**
 * The logo is at a URL: an attachment would be sent and stored with every mail, and mail programs show it as a file. The
 * URL is the same for all, so that loading it says nothing about the reader.
 */
function renderMailBrand(texts: ShownTexts): Html | false {
  const content = renderLogo(texts, 'display:block;border:0;max-width:100%;height:auto') || texts.name
  return content ? html`<p style="margin:0 0 24px;font-weight:bold">${content}</p>\n` : false
}
