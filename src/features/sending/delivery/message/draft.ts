/** @module Composes and signs a draft as it would be sent to its first recipient. Never stores or sends anything. */
import { createPrivateKey } from 'node:crypto'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import type { Draft } from '#features/sending/accept/draft.ts'
import { LOST_RECIPIENT, type TrackedParts, toTrackingCode } from '#features/sending/queue/email.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { findSigningDomain } from '#features/setup/domains/sending.ts'
import { newUuid } from '#platform/ids.ts'
import { createDkimSigner, createSignatureFields } from '#protocols/dkim/sign.ts'
import { applyTracking, composeUnsigned, hashBody } from './compose.ts'
import { createComposeJob, listKeys } from './job.ts'
import { hideUnsubscribeTokens } from './source.ts'

export async function composeDraft(
  app: App,
  { accountId }: Actor,
  draft: Draft,
  { domainId, tracked }: { readonly domainId: number; readonly tracked: TrackedParts },
) {
  const domain = findSigningDomain(app.db, app.keys, domainId)
  if (!domain) throw new Error('the DKIM key of the sending domain is missing')
  const { from, subject, html, text, extra, scheduledAt = null } = draft
  // A reference is the position of its part, from 1.
  const parts = [html, text, ...draft.attachments.map(({ content }) => content)].map((part) => part ?? new Uint8Array())
  const get = (ref: number): Uint8Array => parts[ref - 1] ?? new Uint8Array()
  const unsubscribe = draft.transactional ? {} : hideUnsubscribeTokens(app, domain.returnPathDomain)
  const list = (kind: string) => draft.recipients.filter((to) => to.kind === kind).map((to) => to.mailbox ?? to.address)
  const email = {
    ...{ uuid: newUuid(), accountId, domainId, from, subject, scheduledAt, createdAt: app.clock.now(), extra: null },
    ...{ htmlRef: html ? 1 : null, textRef: text ? 2 : null, attachments: '[]', sizeBytes: 0, broadcastId: null },
    // In place of its unsubscribe headers, which name a stored email, it has those without tokens.
    ...{ tracked: toTrackingCode(tracked) ?? 0, transactional: 1 },
  }
  const job = createComposeJob(app, {
    ...{ recipientId: LOST_RECIPIENT, emailId: 0, rcptTo: draft.recipients[0]?.address ?? '', email, domain },
    extra: { ...extra, headers: { ...extra.headers, ...unsubscribe } },
  })
  const attachments = draft.attachments.map(({ content: _, ...file }, index) => ({ ...file, ref: index + 3 }))
  const composable = { recipientId: LOST_RECIPIENT, compose: { ...job, to: list('to'), cc: list('cc'), attachments } }
  const tracking = { ownUrl: trimTrailingSlashes(app.config.publicUrl) }
  const compose = function* () {
    const reader = { get, chunks: (ref: number) => [get(ref)] }
    const { header, body } = yield* composeUnsigned(composable, {}, reader, tracking)
    const bodyHash = yield* hashBody(body)
    const signatures = listKeys(domain).map(({ selector, privateKeyPem }) => ({
      ...{ domain: domain.domain, selector, signer: createDkimSigner(createPrivateKey(privateKeyPem)) },
    }))
    return Buffer.concat([createSignatureFields(header, bodyHash, signatures), header, ...body])
  }
  const message = await app.fairScheduler.runSteps(getTenantId(app.db, accountId), compose())
  return { message, domain, headers: job.headers, htmlAsSent: applyTracking(String(html ?? ''), composable, tracking) }
}
