/** @module Finds what in a message makes receivers distrust it or readers miss it. Pure; findings are limited. */
import { type Static, Type } from '@sinclair/typebox'
import { extractParts, MAX_BODY_LENGTH } from '#features/reporting/abuse/content-parts.ts'
import { describeLink } from '#features/reporting/abuse/content-rules.ts'
import type { Draft } from '#features/sending/accept/draft.ts'
import { findRegistrableDomain } from '#features/setup/domains/name.ts'
import { StringEnum, Text } from '#platform/http/schemas.ts'
import { KiB, MiB } from '#platform/units.ts'
import { readHtml } from '#protocols/mime/html-tags.ts'
import { htmlToText } from '#protocols/mime/html-text.ts'
import { hasOneClickUrl, readUnsubscribeUrls } from '#protocols/mime/list-unsubscribe.ts'
import texts from './findings.json' with { type: 'json' }

export const SEVERITIES = ['problem', 'warning', 'info'] as const

export const Finding = Type.Object({
  id: Text('Kind of finding.'),
  severity: StringEnum(SEVERITIES, { description: '`problem`: receivers may reject it or mark it as spam.' }),
  message: Text('What was found.'),
  advice: Text('What to do.'),
  where: Type.Optional(Text('The link, picture or file.')),
})

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

export class Findings {
  readonly #found: Static<typeof Finding>[] = []

  /** @param values for the `{names}` of its texts @param isProblem whether it is graver than usual */
  add(id: keyof typeof texts, values: Readonly<Record<string, unknown>> = {}, where?: string, isProblem = false): void {
    if (this.#found.filter((finding) => finding.id === id).length >= MAX_FINDINGS_OF_A_KIND) return
    const text = texts[id]
    const fill = (template: string) => template.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name]))
    this.#found.push({
      id,
      severity: isProblem ? 'problem' : (text.severity as (typeof SEVERITIES)[number]),
      message: fill(text.message),
      advice: fill(text.advice),
      ...(where !== undefined && { where: where.slice(0, MAX_WHERE_LENGTH).toWellFormed() }),
    })
  }

  /** The gravest first. */
  list(): Static<typeof Finding>[] {
    return SEVERITIES.flatMap((severity) => this.#found.filter((finding) => finding.severity === severity))
  }
}

/**
 * @param sent the sizes and headers as sent; whether it is meant for many; and where links are counted, undefined: they
 * are not
 */
export function lintMail(
  { subject, fromDomain: domain, extra, attachments, ...draft }: Draft,
  sent: Readonly<{
    headers: readonly (readonly [name: string, value: string])[]
    htmlBytes: number
    sizeBytes: number
    isBulk: boolean
    trackingHost: string | undefined
  }>,
  found: Findings,
): void {
  const html = String(draft.html ?? '').slice(0, MAX_BODY_LENGTH)
  const text = draft.text ? String(draft.text) : htmlToText(html)
  const isOther = (host: string) => findRegistrableDomain(host) !== findRegistrableDomain(domain)
  const inKiB = (bytes: number) => ({ size: `${Math.ceil(bytes / KiB)} KB` })
  if (sent.htmlBytes > MAX_HTML_BYTES) found.add('html_clipped', inKiB(sent.htmlBytes))
  if (sent.sizeBytes > LARGE_MESSAGE_BYTES)
    found.add('message_large', inKiB(sent.sizeBytes), undefined, sent.sizeBytes > MAX_MESSAGE_BYTES)
  for (const { contentId, filename, content } of attachments)
    if (contentId !== undefined && content.length > LARGE_PICTURE_BYTES)
      found.add('picture_large', inKiB(content.length), filename)
  if (text.trim() === '') found.add('text_empty')
  if (subject.length > MAX_SUBJECT_LENGTH) found.add('subject_long', { length: subject.length })
  if (subject.replace(/\P{Lu}/gu, '').length > 4 && subject === subject.toUpperCase()) found.add('subject_capitals')
  const [list, post] = ['list-unsubscribe', 'list-unsubscribe-post'].map(
    (wanted) => sent.headers.find(([name]) => name.toLowerCase() === wanted)?.[1],
  )
  if (sent.isBulk && list === undefined) found.add('unsubscribe_missing')
  if (list !== undefined && !(post !== undefined && hasOneClickUrl(readUnsubscribeUrls(list).urls)))
    found.add('unsubscribe_not_one_click')
  const replyHost = /@([^\s>@]+)>?\s*$/.exec(extra.reply_to ?? '')?.[1]?.toLowerCase()
  if (replyHost !== undefined && isOther(replyHost)) found.add('reply_to_elsewhere', { host: replyHost, domain })
  const { links } = extractParts({ subject, html, text: html === '' ? text : '' })
  for (const { href, text: label } of links) {
    if (/^#?$/.test(href)) found.add('link_empty', {}, label)
    const { host, isIp, isShortener, isInsecure, otherShown: shown } = describeLink({ href, text: label }) ?? {}
    if (isInsecure) found.add('link_http', { host }, href)
    if (isIp) found.add('link_ip', {}, href)
    if (isShortener) found.add('link_shortener', { host }, href)
    if (shown !== undefined) found.add('link_mismatch', { shown, host }, href)
  }
  if (links.length > 0 && sent.trackingHost !== undefined && isOther(sent.trackingHost))
    found.add('link_tracking_host', { host: sent.trackingHost, domain })
  let shown = ''
  for (const { kind, text: name, attributes } of readHtml(html)) {
    if (kind === 'text' && shown.length < PREHEADER_LENGTH) shown = `${shown} ${name}`.replace(/\s+/g, ' ').trimStart()
    if (kind !== 'start' || name !== 'img') continue
    const source = attributes.get('src') ?? ''
    if (!attributes.has('alt')) found.add('image_alt', {}, source)
    if (/^data:/i.test(source)) found.add('image_data', {}, source)
  }
  if (/^(?:\S+ ){0,5}(?:view|open|read|see)\b.{0,40}\b(?:browser|online)|^unsubscribe|^https?:/i.test(shown))
    found.add('preheader', {}, shown)
}
