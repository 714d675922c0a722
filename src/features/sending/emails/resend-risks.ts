/** @module What to know before an email is sent again: who may get it twice, and who gets none. Reads only. */
import type { App } from '#features/core/app/app.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import type { StoredEmail, StoredRecipient } from './read.ts'

export interface ResendRisk {
  readonly address: string
  /**
   * `delivered`: the receiving server accepted the first email. `uncertain`: it may have it. `suppressed`: the address
   * is suppressed for such mail, so it gets none.
   */
  readonly kind: 'delivered' | 'uncertain' | 'suppressed'
}

/** The risks of recipients of an email, in their order; a suppression comes first. */
export function findResendRisks(
  { db }: Pick<App, 'db'>,
  {
    accountId,
    transactional,
    sandbox,
  }: Pick<StoredEmail, 'transactional' | 'sandbox'> & { readonly accountId: number },
  { streamId, listId }: { readonly streamId: number; readonly listId: number | null },
  recipients: readonly Pick<StoredRecipient, 'address' | 'status'>[],
): ResendRisk[] {
  return recipients.flatMap(({ address, status }): ResendRisk[] => {
    const query = { accountId, address, transactional, streamId, listId: listId ?? undefined }
    if (suppressionOf(db, query)) return [{ address, kind: 'suppressed' }]
    if (status === 'uncertain') return [{ address, kind: 'uncertain' }]
    return status === 'sent' && !sandbox ? [{ address, kind: 'delivered' }] : []
  })
}

/** The sentence about a risk, for the response. */
export const describeResendRisk = ({ address, kind }: ResendRisk): string => SENTENCES[kind](address)

const SENTENCES: Readonly<Record<ResendRisk['kind'], (address: string) => string>> = {
  delivered: (address) => `${address} got the first email, so this one arrives in addition.`,
  uncertain: (address) => `${address} may have got the first email, so it may arrive twice.`,
  suppressed: (address) => `${address} is suppressed, so it gets none.`,
}
