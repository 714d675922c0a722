/**
 * @module Renders the email that requests a confirmation: subject, text and HTML. Pure. The email names the list
 * and its sender, and says that ignoring it is enough to stay off the list: someone else may have entered the address.
 */
import { html } from '#platform/http/html.ts'

export interface ConfirmationMail {
  /** Name of the list, as its owner wrote it. */
  readonly listName: string
  /** Address that has to confirm. */
  readonly address: string
  /** Domain of the sender. */
  readonly senderDomain: string
  /** The confirmation page. */
  readonly url: string
  /** Number of days the link works. */
  readonly days: number
}

/** Returns the subject and bodies of the email. */
export function renderConfirmationMail(mail: ConfirmationMail): {
  readonly subject: string
  readonly text: string
  readonly html: string
} {
  const listName = toOneLine(mail.listName)
  const subject = `Please confirm your subscription to ${listName}`
  return { subject, text: renderText({ ...mail, listName }), html: renderHtml({ ...mail, listName }) }
}

// C0, DEL, C1, the two Unicode line ends, and characters that change the direction of the text after them.
const CONTROLS = /[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+/g

const toOneLine = (text: string): string => text.toWellFormed().replace(CONTROLS, ' ').trim()

const formatDays = (days: number): string => (days === 1 ? '1 day' : `${days} days`)

const renderText = ({ listName, address, senderDomain, url, days }: ConfirmationMail): string => `Hello,

Someone entered ${address} to subscribe to "${listName}" of ${senderDomain}.

If that was you, confirm it here:

${url}

The link works for ${formatDays(days)}.

If it was not you, ignore this message: you will get no more mail from this list.
`

/** Uses only tables and inline styles, because every mail program shows them. */
const renderHtml = ({ listName, address, senderDomain, url, days }: ConfirmationMail): string =>
  html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Please confirm your subscription</title>
</head>
<body style="margin:0;padding:24px 12px;background:#eef0f3;color:#1b1f24;font-family:Arial,Helvetica,sans-serif;font-size:16px;line-height:24px">
<table role="presentation" align="center" width="100%" cellpadding="0" cellspacing="0" style="max-width:544px;margin:0 auto;background:#ffffff">
<tr><td style="padding:32px 24px">
<p style="margin:0 0 16px">Hello,</p>
<p style="margin:0 0 24px">Someone entered <strong>${address}</strong> to subscribe to “${listName}” of <strong>${senderDomain}</strong>.</p>
<p style="margin:0 0 24px"><a href="${url}" style="display:inline-block;padding:12px 24px;border-radius:8px;background:#0b57d0;color:#ffffff;font-weight:bold;text-decoration:none">Confirm the subscription</a></p>
<p style="margin:0 0 24px;font-size:14px;line-height:20px;color:#525a65">Or open this address, which works for ${formatDays(days)}:<br><a href="${url}" style="color:#0b57d0;word-break:break-all">${url}</a></p>
<p style="margin:0;padding-top:24px;border-top:1px solid #d5dae1">If it was not you, ignore this message: you will get no more mail from this list.</p>
</td></tr>
</table>
</body>
</html>
`.toString()
