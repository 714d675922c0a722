/**
 * @module Accepts one email from an API request or another feature: agent mailbox replies, subscription mail, `tassis
 * send`. Stores the content durably, then inserts the email, recipients, event, counters and quota in one transaction.
 * Resolves when the email is on disk. Batches (`batch.ts`), broadcasts and system mail insert their emails themselves.
 */
import { consumeQuota, readRemainingQuota } from '#features/core/accounts/accounts.ts'
import { consumeSandboxQuota, requireSandboxQuota } from '#features/core/accounts/limits.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { dropContent, dropContentOnFailure } from '#features/core/content-gc/garbage.ts'
import { type Idempotency, messageIdOf } from '#features/sending/queue/email.ts'
import {
  insertEmail,
  type Placement,
  refsOf,
  type StoredContent,
  storeContent,
} from '#features/sending/queue/insert.ts'
import { recipientKindCode, type Status, statusName } from '#features/sending/queue/status.ts'
import type { emails } from '#features/sending/queue/tables.ts'
import { type RenderSession, serialiseData, startRenderSession } from '#features/setup/templates/render.ts'
import {
  requireTemplate,
  type Template,
  type TemplateName,
  toTemplateSource,
} from '#features/setup/templates/templates.ts'
import { equalBytes } from '#platform/crypto/crypto.ts'
import { prepareStatements, readSnapshot, type Tx } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import type { RenderRequest } from '#platform/template/renderer.ts'
import { createDraft, type Draft, fillDraft } from './draft.ts'
import { createIdempotencyConflict, readIdempotency } from './idempotency.ts'
import type { SendRequest, SendResponse } from './model.ts'
import { countSendable, findSuppressions, requireDiskSpace, requireQuota, requireSendable } from './sendable.ts'

const sql = prepareStatements((db) => ({
  findKey: db.prepare<{ emailId: number; bodyHash: Uint8Array }, [number, Uint8Array]>(
    'SELECT email_id AS emailId, body_hash AS bodyHash FROM idempotency_keys WHERE account_id = ? AND key_hash = ?',
  ),
  email: db.prepare<Omit<RespondedEmail, 'status' | 'sandbox' | 'to'> & { status: number; sandbox: number }, [number]>(
    `SELECT uuid, from_address AS "from", status, sandbox, scheduled_at AS scheduledAt, created_at AS createdAt,
     extra ->> '$.message_id' AS messageId FROM emails WHERE id = ?`,
  ),
  toAddresses: db.prepare<{ address: string }, [number]>(
    `SELECT address FROM recipients WHERE email_id = ? AND kind = ${recipientKindCode('to')} ORDER BY id`,
  ),
}))

export interface AcceptedEmail {
  /**
   * The response of the first email if the idempotency key was used before. It then has `replayed`, and `mismatch` too
   * if this request differs from the first.
   */
  readonly response: SendResponse
}

/**
 * Accepts a send request; resolves when the email is on disk. The idempotency key is looked up before any check whose
 * result may have changed since the first request: the draft rules (`send_at` may have passed), the rate, the quota,
 * the domain.
 * @param idempotencyHeader value of the header `Idempotency-Key`
 * @param admit throws when the account sends too fast
 */
export async function acceptRequest(
  app: App,
  actor: Actor,
  request: SendRequest,
  idempotencyHeader: string | undefined,
  admit: () => void,
): Promise<AcceptedEmail> {
  const idempotency = readIdempotency(request, idempotencyHeader)
  return acceptTranslated(app, actor, { idempotency, translate: () => request }, admit)
}

/** A send request of another provider's interface. */
export interface TranslatedRequest {
  /** Of the request as it came: what it is translated to may depend on the time, or on files that are fetched. */
  readonly idempotency: Idempotency | undefined
  /** Called unless the key was used before; throws a 422 for a request that cannot be translated. */
  readonly translate: () => SendRequest | Promise<SendRequest>
  /** Adds to the draft what no send request can say, such as the client's Message-ID in submitted mail. */
  readonly complete?: (draft: Draft) => Draft
}

/** Like `acceptRequest`, for a request that becomes a send request only now. */
export async function acceptTranslated(
  app: App,
  actor: Actor,
  { idempotency, translate, complete = (draft) => draft }: TranslatedRequest,
  admit: () => void,
): Promise<AcceptedEmail> {
  const replay = resolveReplay(app, actor, idempotency)
  if (replay) return respondWithReplay(app, actor, replay)
  const request = await translate()
  const draft = () => complete(createDraft(app, request, idempotency))
  // Decoding attachments takes milliseconds, so it goes through the fair scheduler.
  const isLarge = (request.attachments?.length ?? 0) > 0
  return acceptEmail(
    app,
    actor,
    isLarge ? await app.fairScheduler.run(getTenantId(app.db, actor.accountId), draft) : draft(),
    admit,
  )
}

/**
 * Accepts one email; resolves when it is on disk. Renders a template only for a new email that passed all other checks.
 * @param admit throws when the account sends too fast; called after the idempotency key was looked up
 * @param onInserted writes related rows in the same transaction, or throws to reject the email; not called for a replay
 */
export async function acceptEmail(
  app: App,
  actor: Actor,
  provided: Draft,
  admit: () => void = () => undefined,
  onInserted: (tx: Tx, response: SendResponse) => void = () => undefined,
): Promise<AcceptedEmail> {
  const checked = readSnapshot(app.db, () => {
    const replay = resolveReplay(app, actor, provided.idempotency)
    if (replay) return { replay }
    admit()
    app.workBudget.spend(actor.accountId, provided.recipients.length)
    const sendable = requireSendable(app, actor, provided)
    return { sendable, left: readRemainingQuota(app.db, sendable.account, app.clock.now()) }
  })
  if (checked.replay) return respondWithReplay(app, actor, checked.replay)
  const { account, sandbox, streamId } = checked.sendable
  if (sandbox) requireSandboxQuota(app, app.db, actor.accountId, provided.recipients.length)
  await requireDiskSpace(app)
  await requireQuota(
    app,
    account,
    sandbox ? 0 : provided.recipients.length,
    () => countSendable({ suppressions: findSuppressions(app.db, actor, provided, streamId) }),
    checked.left,
  )
  using rendering = startRenderSession(app)
  const draft = await renderDraft(app, actor, provided, rendering)
  const owner = getTenantId(app.db, actor.accountId)
  const content = await storeContent(app, draft, {
    owner,
    runFairly: draft.attachments.length > 0 ? (pack) => app.fairScheduler.resume(owner, pack) : undefined,
  })
  const refs = { content: refsOf(content) }
  const write = (tx: Tx): AcceptedEmail => {
    const earlier = resolveReplay(app, actor, draft.idempotency)
    if (earlier) {
      dropContent(app, tx, refs)
      return earlier
    }
    const response = insertSendable(app, tx, actor, draft, content)
    onInserted(tx, response)
    return { response }
  }
  const accepted = await dropContentOnFailure(app, refs, () => app.commit.write(write, { owner }))
  logMismatch(app, actor, accepted)
  return accepted
}

/** Checks a draft whose content is stored, counts it and inserts it. Throws before it writes, as `acceptEmail` does. */
export function insertSendable(app: App, tx: Tx, actor: Actor, draft: Draft, content: StoredContent): SendResponse {
  const context = requireSendable(app, actor, draft)
  const suppressions = findSuppressions(tx.db, actor, draft, context.streamId)
  if (context.sandbox) consumeSandboxQuota(app, tx, actor.accountId, draft.recipients.length)
  const counted = context.sandbox ? 0 : countSendable({ suppressions })
  const quotaMonth = counted === 0 ? null : consumeQuota(tx, context.account, counted, app.clock.now())
  return insertDraft(app, tx, actor, draft, content, { ...context, suppressions, quotaMonth, operationId: null })
}

/** The response to a repeated request, once the first email is on disk. */
export async function respondWithReplay(app: App, actor: Actor, replay: AcceptedEmail): Promise<AcceptedEmail> {
  logMismatch(app, actor, replay)
  return waitUntilDurable(app, replay)
}

/** A client that reuses keys by mistake believes that its mail was sent, so the operator must see it. */
export function logMismatch(app: Pick<App, 'log'>, actor: Actor, { response }: AcceptedEmail): void {
  if (response.mismatch)
    app.log.warn(
      { account: actor.accountUuid, email_id: response.id },
      'email not sent: its idempotency key belongs to an email with other content',
    )
}

/** Like `findReplay`, but throws a 409 for other content if the setting `idempotencyMismatch` is `conflict`. */
export function resolveReplay(
  app: Pick<App, 'db' | 'config'>,
  actor: Actor,
  idempotency: Idempotency | undefined,
): AcceptedEmail | undefined {
  const replay = findReplay(app, actor, idempotency)
  if (replay?.response.mismatch && app.config.idempotencyMismatch === 'conflict') throw createIdempotencyConflict()
  return replay
}

/** The first email that used this key, if any. It may not be on disk yet: see `waitUntilDurable`. */
export function findReplay(
  app: Pick<App, 'db'>,
  actor: Actor,
  idempotency: Idempotency | undefined,
): AcceptedEmail | undefined {
  if (!idempotency) return undefined
  const found = sql(app.db).findKey.get(actor.accountId, idempotency.keyHash)
  if (!found) return undefined
  const isSame = equalBytes(found.bodyHash, idempotency.bodyHash)
  return { response: { ...readSendResponse(app, found.emailId), replayed: true, ...(!isSame && { mismatch: true }) } }
}

/** Returns `value` once the data from which it was read is on disk: it may belong to a group that is being synced. */
export const waitUntilDurable = <T extends object>(app: Pick<App, 'commit'>, value: T): Promise<T> =>
  app.commit.writeFromReserve<{ value: T }>(() => ({ value })).then((written) => written.value)

/** Throws the 422 `template_not_found`. */
export type FindTemplate = (name: TemplateName) => Template

/** Caches only the last template: most batches use a single one, and a template may be large. */
export function createTemplateFinder(app: App, accountId: number): FindTemplate {
  let last: { readonly name: TemplateName; readonly template: Template } | undefined
  return (name) => {
    if (last?.name.alias !== name.alias || last.name.locale !== name.locale)
      last = { name, template: requireTemplate(app.db, accountId, name) }
    return last.template
  }
}

/**
 * Renders the missing parts of a draft; returns a draft without a template unchanged. Throws a 422:
 * `template_not_found`, `template_error` or `template_limit` if the template fails with this data, `validation_failed`
 * if its result is not valid. Also throws the errors of `rendering`.
 */
export async function renderDraft(
  app: App,
  actor: Actor,
  draft: Draft,
  rendering: RenderSession,
  find: FindTemplate = createTemplateFinder(app, actor.accountId),
): Promise<Draft> {
  if (!draft.template) return draft
  const template = find(draft.template)
  return fillDraft(draft, template.id, await rendering.render(toRenderRequest(actor, draft, template)))
}

/** Requests the parts that the draft lacks. */
function toRenderRequest(actor: Actor, draft: Draft, template: Template): RenderRequest {
  const { subject, html, text } = toTemplateSource(template)
  return {
    accountId: actor.accountId,
    urgency: 'now',
    source: {
      subject: draft.subject === '' ? subject : undefined,
      html: draft.html ? undefined : html,
      text: draft.text ? undefined : text,
    },
    dataJson: serialiseData(draft.extra.template_data ?? {}),
  }
}

export function readSendResponse(app: Pick<App, 'db'>, emailId: number): SendResponse {
  const statements = sql(app.db)
  const email = statements.email.get(emailId)
  if (!email) throw new AppError(404, 'email_not_found', 'Email not found.')
  return toSendResponse({
    ...email,
    status: statusName(email.status),
    to: statements.toAddresses.all(emailId),
    sandbox: email.sandbox === 1,
  })
}

/** Inserts an email and returns its send response. Throws if its template was not rendered. */
export function insertDraft(
  app: App,
  tx: Tx,
  actor: Actor,
  draft: Draft,
  content: StoredContent,
  placement: Placement,
): SendResponse {
  if (draft.template) throw new Error('the template of an email was not rendered')
  return toSendResponse({
    ...insertEmail(app, tx, actor, draft, content, placement),
    from: draft.from,
    to: draft.recipients.filter(({ kind }) => kind === 'to'),
    scheduledAt: draft.scheduledAt ?? null,
    messageId: draft.extra.message_id ?? null,
  })
}

interface RespondedEmail
  extends Readonly<Pick<typeof emails.$inferSelect, 'uuid' | 'from' | 'sandbox' | 'createdAt' | 'scheduledAt'>> {
  /** Set by the client; null: derived. */
  readonly messageId: string | null
  readonly status: Status
  readonly to: readonly { readonly address: string }[]
}

const toSendResponse = (email: RespondedEmail): SendResponse => ({
  id: formatUuid(email.uuid),
  message_id: messageIdOf(email.uuid, email.from, email.messageId),
  status: email.status,
  to: email.to.map(({ address }) => address).join(', '),
  sandbox: email.sandbox,
  created_at: isoTime(email.createdAt),
  ...(email.scheduledAt !== null && { scheduled_at: isoTime(email.scheduledAt) }),
})
