/** @module `POST /v1/emails/check`: what receivers will think of an email, before it is sent. Stores and sends nothing. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { SpamVerdictOrNull, scanMessage } from '#features/receiving/received/spam.ts'
import { renderDraft } from '#features/sending/accept/accept.ts'
import { createDraft, type Draft } from '#features/sending/accept/draft.ts'
import { SendRequest } from '#features/sending/accept/model.ts'
import { requireSendable } from '#features/sending/accept/sendable.ts'
import { composeDraft } from '#features/sending/delivery/message/draft.ts'
import { trackingBaseUrl } from '#features/sending/tracking/tokens.ts'
import { findDomainById } from '#features/setup/domains/domains.ts'
import { findTrackingHost } from '#features/setup/domains/tracking-domain.ts'
import { startRenderSession } from '#features/setup/templates/render.ts'
import { describeRoute } from '#platform/http/access.ts'
import { serverBusy } from '#platform/http/body.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { createRateLimiter, requireTaken } from '#platform/http/rate-limit.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import { Finding, Findings, lintMail } from './lint.ts'

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
