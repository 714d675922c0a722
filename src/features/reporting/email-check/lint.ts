/** @module Finds what in a message makes receivers distrust it or readers miss it. Pure; findings are limited. */
import { extractParts } from '#features/reporting/abuse/content-parts.ts'
import { describeLink } from '#features/reporting/abuse/content-rules.ts'
import type { Draft } from '#features/sending/accept/draft.ts'
import { findRegistrableDomain } from '#features/setup/domains/name.ts'
import { KiB, MiB } from '#platform/units.ts'
import { readHtml } from '#protocols/mime/html-tags.ts'
import { htmlToText } from '#protocols/mime/html-text.ts'
import { hasOneClickUrl, readUnsubscribeUrls } from '#protocols/mime/list-unsubscribe.ts'

export const SEVERITIES = ['problem', 'warning', 'info'] as const

export interface Finding {
  readonly id: string
  readonly severity: (typeof SEVERITIES)[number]
  readonly message: string
  readonly advice: string
  /** The link, picture or file. */
  readonly where?: string
}

export interface MailFacts {
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** Sizes as sent. */
  readonly htmlBytes: number
  readonly sizeBytes: number
  /** Whether it is meant for many. */
  readonly isBulk: boolean
  /** Where links are counted; undefined: they are not. */
  readonly trackingHost: string | undefined
}

/** Gmail hides what is behind it. */
const MAX_HTML_BYTES = 102 * KiB
const LARGE_MESSAGE_BYTES = 10 * MiB
const MAX_MESSAGE_BYTES = 25 * MiB
const LARGE_PICTURE_BYTES = 256 * KiB
const MAX_SUBJECT_LENGTH = 78
/** Mail programs show so much of the beginning beside the subject. */
const PREHEADER_LENGTH = 90
const MAX_FINDINGS_OF_A_KIND = 5
const MAX_WHERE_LENGTH = 200

export type AddFinding = (
  severity: Finding['severity'],
  id: string,
  message: string,
  advice: string,
  where?: string,
) => void

/** Collects findings, at most five of a kind. */
export function createFindings(): { readonly findings: Finding[]; readonly add: AddFinding } {
  const findings: Finding[] = []
  const add: AddFinding = (severity, id, message, advice, where) => {
    const place = where === undefined ? {} : { where: where.slice(0, MAX_WHERE_LENGTH).toWellFormed() }
    if (findings.filter((finding) => finding.id === id).length < MAX_FINDINGS_OF_A_KIND)
      findings.push({ id, severity, message, advice, ...place })
  }
  return { findings, add }
}

export function lintMail(
  draft: Draft,
  { headers, htmlBytes, sizeBytes, isBulk, trackingHost }: MailFacts,
  add: AddFinding,
) {
  const { subject, fromDomain, extra, attachments } = draft
  const html = String(draft.html ?? '')
  const text = draft.text ? String(draft.text) : htmlToText(html)
  const isOther = (host: string) => findRegistrableDomain(host) !== findRegistrableDomain(fromDomain)
  const inKiB = (bytes: number) => `${Math.ceil(bytes / KiB)} KB`
  if (htmlBytes > MAX_HTML_BYTES)
    add(
      'warning',
      'html_clipped',
      `The HTML has ${inKiB(htmlBytes)}; Gmail hides what is behind 102 KB.`,
      'Shorten it.',
    )
  if (sizeBytes > LARGE_MESSAGE_BYTES) {
    const message = `The message has ${inKiB(sizeBytes)}; many receivers reject more than 10 MB, Gmail more than 25 MB.`
    add(sizeBytes > MAX_MESSAGE_BYTES ? 'problem' : 'warning', 'message_large', message, 'Link to large files.')
  }
  for (const { contentId, filename, content } of attachments)
    if (contentId !== undefined && content.length > LARGE_PICTURE_BYTES)
      add('warning', 'picture_large', `A picture has ${inKiB(content.length)}.`, 'Make it smaller.', filename)
  if (text.trim() === '')
    add('warning', 'text_empty', 'The text part is empty, as in spam that is one picture.', 'Write text_body.')
  if (subject.length > MAX_SUBJECT_LENGTH)
    add('warning', 'subject_long', `The subject has ${subject.length} characters.`, 'Readers see the first 40 to 78.')
  if (subject.replace(/\P{Lu}/gu, '').length > 4 && subject === subject.toUpperCase())
    add('warning', 'subject_capitals', 'The subject is all capitals, as in spam.', 'Write it as a sentence.')
  const [list, post] = ['list-unsubscribe', 'list-unsubscribe-post'].map(
    (wanted) => headers.find(([name]) => name.toLowerCase() === wanted)?.[1],
  )
  const advice = 'Send it with transactional: false; the service then adds both fields, if its public URL is https.'
  if (isBulk && list === undefined)
    add('problem', 'unsubscribe_missing', 'Mail to many needs List-Unsubscribe at Gmail and Yahoo.', advice)
  if (list !== undefined && !(post !== undefined && hasOneClickUrl(readUnsubscribeUrls(list).urls)))
    add('warning', 'unsubscribe_not_one_click', 'List-Unsubscribe has no one-click form (RFC 8058).', advice)
  const replyHost = /@([^\s>@]+)>?\s*$/.exec(extra.reply_to ?? '')?.[1]?.toLowerCase()
  if (replyHost !== undefined && isOther(replyHost))
    add('info', 'reply_to_elsewhere', `Replies go to ${replyHost}, not to ${fromDomain}.`, 'Use one domain for both.')
  const { links } = extractParts({ subject, html, text: html === '' ? text : '' })
  for (const { href, text: label } of links) {
    if (/^#?$/.test(href)) add('warning', 'link_empty', 'A link leads nowhere.', 'Give it a URL.', label)
    const { host, isIp, isShortener, isInsecure, otherShown } = describeLink({ href, text: label }) ?? {}
    if (isInsecure) add('warning', 'link_http', `A link to ${host} is not encrypted.`, 'Use https.', href)
    if (isIp) add('problem', 'link_ip', 'A link leads to an IP address, as in phishing.', 'Use a host name.', href)
    if (isShortener) add('problem', 'link_shortener', `${host} hides where a link leads.`, 'Use the full URL.', href)
    if (otherShown !== undefined)
      add(
        'problem',
        'link_mismatch',
        `A link shows ${otherShown} but leads to ${host}.`,
        'Show what it leads to.',
        href,
      )
  }
  if (links.length > 0 && trackingHost !== undefined && isOther(trackingHost))
    add('info', 'link_tracking_host', `Links are counted at ${trackingHost}.`, `Use a host of ${fromDomain} for it.`)
  let shown = ''
  for (const { kind, text: name, attributes } of readHtml(html)) {
    if (kind === 'text' && shown.length < PREHEADER_LENGTH) shown = `${shown} ${name}`.replace(/\s+/g, ' ').trimStart()
    if (kind !== 'start' || name !== 'img') continue
    const source = attributes.get('src') ?? ''
    if (!attributes.has('alt')) add('warning', 'image_alt', 'A picture has no alt text.', 'Add alt="…".', source)
    if (/^data:/i.test(source)) add('warning', 'image_data', 'Gmail shows no data: pictures.', 'Attach it.', source)
  }
  if (/^(?:\S+ ){0,5}(?:view|open|read|see)\b.{0,40}\b(?:browser|online)|^unsubscribe|^https?:/i.test(shown))
    add('info', 'preheader', 'Readers see this beside the subject.', 'Begin with a sentence that says more.', shown)
}
