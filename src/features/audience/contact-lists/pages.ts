/**
 * @module /confirm: the page behind a confirmation link. Public: anyone with the token may use it. GET and HEAD ask and
 * never act, because scanners and prefetchers follow every link of a message; POST confirms, once. A link is valid until
 * it expires, a newer one replaces it, or the contact leaves; it works while the account is paused, too.
 */
import type { Database } from 'bun:sqlite'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { type Contact, findContactById } from '#features/setup/contact-store/find.ts'
import { type ContactList, findListById } from '#features/setup/contact-store/lists.ts'
import { EVERY, suppressionOf } from '#features/setup/suppression-store/check.ts'
import { confirmContact } from '#features/setup/suppression-store/contacts.ts'
import { chooseOurTexts, findShownTexts, type ShownTexts } from '#features/setup/wording/wording.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { localisedResponse } from '#platform/http/language.ts'
import { days, type Millis } from '#platform/units.ts'
import { CONFIRM_PATH, type ConfirmFacts, openConfirmToken } from './confirm-token.ts'
import { CONFIRMATION_DAYS } from './confirmation-mail.ts'
import { auditContact } from './contacts.ts'
import { incompleteLinkPage, type LinkPage, linkPage, nothingToConfirmPage, notStoredPage } from './page.ts'
import { scheduleWelcome } from './subscription-mails.ts'

const hiddenDetail = { hide: true }

/**
 * Creates the plugin of /confirm.
 * @param findFormSlug slug of a list's signup form, by row id, while the form is active
 */
export function confirmPages(app: App, findFormSlug: (db: Database, listId: number) => string | undefined) {
  /** @param openPage the page of an open link: the question of a GET, the confirmation of a POST */
  const toResponse = (ours: ShownTexts, facts: ConfirmFacts, state: LinkState, openPage: LinkPage): Response => {
    const { language } = ours
    if (state.kind === 'gone') return localisedResponse(language, nothingToConfirmPage(ours), 410)
    const { kind, list, contact } = state
    const subject = { listName: list.name, address: contact.email, senderDomain: facts.senderDomain }
    const texts = findShownTexts(app.db, facts.accountUuid, { language, sender: facts.senderDomain, list: list.name })
    const slug = findFormSlug(app.db, list.id)
    const formUrl = slug && `${trimTrailingSlashes(app.config.publicUrl)}/subscribe/${slug}`
    const page = linkPage(texts, kind === 'open' ? openPage : kind, subject, formUrl)
    return localisedResponse(language, page, kind === 'open' || kind === 'active' ? 200 : 410)
  }
  return new Elysia()
    .get(
      `${CONFIRM_PATH}/:token`,
      ({ params, request }) => {
        const texts = chooseOurTexts(request)
        const facts = openConfirmToken(app.keys, params.token)
        if (!facts) return localisedResponse(texts.language, incompleteLinkPage(texts), 404)
        return toResponse(texts, facts, readLinkState(app, facts, app.eventTime()), 'question')
      },
      { detail: hiddenDetail },
    )
    .post(
      `${CONFIRM_PATH}/:token`,
      async ({ params, request }) => {
        const texts = chooseOurTexts(request)
        const facts = openConfirmToken(app.keys, params.token)
        if (!facts) return localisedResponse(texts.language, incompleteLinkPage(texts), 404)
        try {
          return toResponse(texts, facts, await confirmSubscription(app, facts), 'confirmed')
        } catch (error) {
          if (!(error instanceof AppError)) throw error
          return localisedResponse(texts.language, notStoredPage(texts), error.status)
        }
      },
      { detail: { ...hiddenDetail, ...acceptsBody('anything') } },
    )
}

/** The state of a link. */
export type LinkState =
  /** The list or the contact has been deleted. */
  | { readonly kind: 'gone' }
  | {
      /**
       * `open`: it can be confirmed. `active`: the contact already gets the list's mail. `expired`. `replaced`: only a
       * later link is valid. `refused`: the contact has left the list since, its mail bounced, or its address is
       * suppressed.
       */
      readonly kind: 'open' | 'active' | 'expired' | 'replaced' | 'refused'
      readonly list: ContactList
      readonly contact: Contact
    }

const sql = prepareStatements((db) => ({
  // An account that is being deleted counts as deleted: its deletion might miss a row written now.
  account: db.prepare<{ id: number }, [Uint8Array]>('SELECT id FROM accounts WHERE uuid = ? AND deleted_at IS NULL'),
}))

/** The state of a token's link at an event time. */
export function readLinkState({ db }: Pick<App, 'db'>, facts: ConfirmFacts, now: Millis): LinkState {
  const contact = findContactById(db, facts.contactId)
  const list = findListById(db, facts.listId)
  const accountId = sql(db).account.get(facts.accountUuid)?.id
  if (!contact || !list || contact.listId !== list.id || list.accountId !== accountId) return { kind: 'gone' }
  const toState = (kind: Exclude<LinkState['kind'], 'gone'>): LinkState => ({ kind, list, contact })
  if (contact.status === 'active') return toState('active')
  // Otherwise the page would promise mail that never reaches a suppressed address.
  const query = { accountId, address: contact.email, transactional: true, streamId: EVERY }
  if (suppressionOf(db, query)) return toState('refused')
  const { confirmingSince } = contact
  if (confirmingSince === null || confirmingSince < facts.since) return toState('refused')
  if (confirmingSince > facts.since) return toState('replaced')
  return toState(now > facts.madeAt + days(CONFIRMATION_DAYS) ? 'expired' : 'open')
}

/**
 * Confirms the contact of a token if its link is open. Resolves when the confirmation is on disk, with the state that
 * the link had just before. Of several concurrent calls, the first finds the link open, the others find the contact
 * active.
 */
export function confirmSubscription(app: App, facts: ConfirmFacts): Promise<LinkState> {
  return app.commit.write((tx) => {
    const state = readLinkState(tx, facts, app.eventTime())
    if (state.kind !== 'open') return state
    const { contact, list } = state
    confirmContact(app, tx, contact.id, facts.since)
    scheduleWelcome(app, tx, contact.id, list)
    const actor = createSystemActor({ accountId: list.accountId, accountUuid: facts.accountUuid })
    auditContact(app, tx, actor, 'confirmed', contact, list, { by: 'recipient' })
    return state
  })
}
