/** @module `POST /v1/emails/check`: what receivers will think of an email, before it is sent. Stores and sends nothing. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { SpamVerdictOrNull, scanMessage } from '#features/receiving/received/spam.ts'
import { describeLink, extractParts, MAX_BODY_LENGTH } from '#features/reporting/abuse/content-rules.ts'
import { renderDraft } from '#features/sending/accept/accept.ts'
import { createDraft, type Draft } from '#features/sending/accept/draft.ts'
import { SendRequest } from '#features/sending/accept/model.ts'
import { requireSendable } from '#features/sending/accept/sendable.ts'
import { composeDraft } from '#features/sending/delivery/message/draft.ts'
import { trackingBaseUrl } from '#features/sending/tracking/tokens.ts'
import { findDomainById } from '#features/setup/domains/domains.ts'
import { findRegistrableDomain } from '#features/setup/domains/name.ts'
import { findTrackingHost } from '#features/setup/domains/tracking-domain.ts'
import { startRenderSession } from '#features/setup/templates/render.ts'
import { describeRoute } from '#platform/http/access.ts'
import { serverBusy } from '#platform/http/body.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { createRateLimiter, requireTaken } from '#platform/http/rate-limit.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB, MiB } from '#platform/units.ts'
import { readHtml } from '#protocols/mime/html-tags.ts'
import { htmlToText } from '#protocols/mime/html-text.ts'
import { hasOneClickUrl, readUnsubscribeUrls } from '#protocols/mime/list-unsubscribe.ts'
import texts from './findings.json' with { type: 'json' }

const SEVERITIES = ['problem', 'warning', 'info'] as const

const Finding = Type.Object({
  id: S.Text('Kind of finding.'),
  severity: S.StringEnum(SEVERITIES, { description: '`problem`: receivers may reject it or mark it as spam.' }),
  message: S.Text('What was found.'),
  advice: S.Text('What to do.'),
  where: Type.Optional(S.Text('The link, picture or file.')),
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

class Findings {
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
 * Finds what in a message makes receivers distrust it or readers miss it; findings are limited.
 * @param sent the sizes and headers as sent; whether it is meant for many; and where links are counted, undefined: they
 * are not
 */
function lintMail(
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

const RATE = { ratePerSecond: 2, burst: 60 }
const BYTES_PER_WORK_UNIT = 4 * KiB
/** Peak memory per octet: as decoded, as encoded, and in one piece. */
const MEMORY_FACTOR = 4

const Result = (description: string) => S.StringEnum(['pass', 'fail'], { description })

const EmailCheck = Type.Object({
  verdict: S.StringEnum(['ok', 'warnings', 'problems'], { description: 'By the gravest finding; `info` is ok.' }),
  score: S.Nullable(Type.Number(), { description: 'Score by rspamd; null: there is none.' }),
  findings: Type.Array(Finding, { description: 'The gravest first; at most five of a kind.' }),
  authentication: S.Part('As receivers will see it.', {
    from_domain: S.Text('Domain of From.'),
    is_verified: Type.Boolean({ description: 'Whether the domain is verified; if not, the mail goes to the sandbox.' }),
    dkim_domain: S.Text('Domain that signs; aligned with From (relaxed).'),
    spf_domain: S.Text('Domain of the envelope sender; aligned with From (relaxed).'),
    dkim: Result('As of the last check of the DNS of the domain.'),
    spf: Result('The same.'),
    dmarc: Result('Passes if DKIM or SPF does.'),
    has_dmarc_record: Type.Boolean({ description: 'Whether DNS had a DMARC record at the last check of the domain.' }),
  }),
  size_bytes: S.Count('Size of the message as sent, with its signatures.'),
  html_bytes: S.Count('Size of its HTML as sent.'),
  rspamd: SpamVerdictOrNull,
})

export function emailCheckRoutes(app: App) {
  const limiter = createRateLimiter(app.clock)
  return new Elysia({ prefix: '/v1/emails', tags: ['Emails'] }).use(authenticated).post(
    '/check',
    async ({ actor, body }) => {
      const taken = limiter.take(String(getTenantId(app.db, actor.accountId)), 1, RATE)
      requireTaken(
        taken,
        'At most two checks a second are allowed, with bursts of 60; wait as long as Retry-After says.',
      )
      return dataBody(await checkEmail(app, actor, body))
    },
    {
      body: SendRequest,
      response: S.DataBody(EmailCheck),
      detail: describeRoute(
        'Check an email before sending',
        requires('emails:send'),
        'Takes what `POST /v1/emails` takes and refuses what that refuses. Composes and signs the message as it would be sent, finds what harms it, and asks the rspamd of the operator, if there is one. Nothing is stored, sent or counted.',
      ),
    },
  )
}

async function checkEmail(app: App, actor: Actor, request: SendRequest) {
  const provided = createDraft(app, request)
  const sendable = requireSendable(app, actor, provided)
  using rendering = startRenderSession(app)
  const draft = await renderDraft(app, actor, provided, rendering)
  const parts = [draft.html, draft.text, ...draft.attachments.map(({ content }) => content)]
  const contentBytes = parts.reduce((sum, part) => sum + (part?.length ?? 0), 0)
  app.workBudget.spend(actor.accountId, contentBytes / BYTES_PER_WORK_UNIT)
  const memory = app.memory.reserve(contentBytes * MEMORY_FACTOR)
  if (!memory) throw serverBusy()
  try {
    return await judgeDraft(app, actor, draft, sendable)
  } finally {
    memory.release()
  }
}

async function judgeDraft(app: App, actor: Actor, draft: Draft, sendable: ReturnType<typeof requireSendable>) {
  const { message, headers, htmlAsSent, ...composed } = await composeDraft(app, actor, draft, sendable)
  const { domain: name, returnPathDomain } = composed.domain
  const found = new Findings()
  const domain = findDomainById(app.db, sendable.domainId)
  const isVerified = domain?.verifiedAt != null
  const records = domain?.verified
  const [dkim, spf] = [records?.dkim === true, records?.spf === true && records.return_path]
  const has_dmarc_record = records?.dmarc === true
  const whose = { domain: name, id: domain && formatUuid(domain.uuid) }
  if (!isVerified) found.add('domain_unverified', whose)
  if (!dkim && !spf) found.add('dmarc_fail', whose)
  if (!has_dmarc_record) found.add('dmarc_missing', whose)
  const rspamd = app.config.rspamdUrl === '' ? null : await askRspamd(app, draft, message, returnPathDomain, found)
  const [htmlBytes, sizeBytes] = [Buffer.byteLength(htmlAsSent), message.length]
  const trackingUrl = trackingBaseUrl(app.config.publicUrl, findTrackingHost(app.db, sendable.domainId))
  const trackingHost = sendable.tracked.clicks ? URL.parse(trackingUrl)?.hostname : undefined
  const isBulk = !draft.transactional || sendable.priority === 'low'
  lintMail(draft, { headers, htmlBytes, sizeBytes, isBulk, trackingHost }, found)
  const findings = found.list()
  const toResult = (isPassed: boolean) => (isPassed ? 'pass' : 'fail')
  return {
    ...{ verdict: VERDICTS[findings[0]?.severity ?? 'info'], score: rspamd?.score ?? null, findings, rspamd },
    authentication: {
      ...{ from_domain: draft.fromDomain, is_verified: isVerified, has_dmarc_record },
      ...{ dkim_domain: name, spf_domain: returnPathDomain },
      ...({ dkim: toResult(dkim), spf: toResult(spf), dmarc: toResult(dkim || spf) } as const),
    },
    ...{ size_bytes: sizeBytes, html_bytes: htmlBytes },
  }
}

const VERDICTS = { problem: 'problems', warning: 'warnings', info: 'ok' } as const

async function askRspamd(app: App, { recipients }: Draft, message: Buffer, returnPathDomain: string, found: Findings) {
  const rcptTo = recipients.map(({ address }) => address)
  const envelope = { mailFrom: `check@${returnPathDomain}`, helo: app.config.hostname, rcptTo }
  const verdict = await scanMessage(app, message, envelope, 'draft')
  if (typeof verdict === 'string') {
    found.add('rspamd_unavailable', { reason: verdict })
    return null
  }
  if (verdict.verdict !== 'ham') found.add('rspamd', verdict, undefined, verdict.verdict === 'spam')
  return verdict
}
