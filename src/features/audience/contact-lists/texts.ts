/**
 * @module The English texts of confirmation emails and pages, and the purpose of each. Readers know the list and its
 * sender, not this service. Names in braces are filled in. Contains no HTML.
 */
import type { OwnWords } from '#features/setup/wording/wording.ts'
import type { Language } from '#platform/http/language.ts'

/**
 * All texts in one language. {address}, {sender} and {list} are names; {mail} is `mail` or `mailFrom`; {days} is a
 * number of days with its unit.
 */
export interface ConfirmationTexts {
  readonly language: Language
  /** What the account has set in place of ours, or beside ours. */
  readonly own?: OwnWords

  /** The email. */
  readonly subject: string
  readonly hello: string
  readonly someoneEntered: string
  readonly confirmHere: string
  readonly confirmButton: string
  readonly linkWorks: string
  readonly orOpen: string
  readonly ifNotYou: string

  /** The mail of the list, as in "gets {mail}"; the sender may be unknown. */
  readonly mail: string
  readonly mailFrom: string

  readonly title: string
  readonly question: string
  readonly willGet: string
  readonly confirm: string
  readonly notAsked: string

  readonly isConfirmed: string
  readonly gets: string
  readonly everyMessage: string

  readonly wasConfirmed: string
  readonly nothingToDo: string

  readonly hasExpired: string
  readonly notInTime: string

  readonly isReplaced: string
  readonly sentAnother: string
  readonly cannotFind: string

  readonly isWithdrawn: string
  readonly noLongerGets: string

  /** Ways to subscribe again: the list's form, or its sender. */
  readonly stillWanted: string
  readonly subscribeAgain: string
  readonly askSender: string
  readonly askUnknownSender: string

  readonly nothingLeft: string
  readonly listClosed: string

  readonly isIncomplete: string
  readonly whatUnknown: string
  readonly openAgain: string

  readonly didNotWork: string
  readonly notStored: string
}

export const english: ConfirmationTexts = {
  language: 'en',
  subject: 'Please confirm your subscription to {list}',
  hello: 'Hello,',
  someoneEntered: 'Someone entered {address} to subscribe to “{list}” of {sender}.',
  confirmHere: 'If that was you, confirm it here:',
  confirmButton: 'Confirm the subscription',
  linkWorks: 'The link works for {days}.',
  orOpen: 'Or open this address, which works for {days}:',
  ifNotYou: 'If it was not you, ignore this message: you will get no more mail from this list.',
  mail: 'the mail of “{list}”',
  mailFrom: 'the mail of “{list}” from {sender}',
  title: 'Confirm your subscription',
  question: 'Confirm your subscription?',
  willGet: '{address} will then get {mail}.',
  confirm: 'Confirm',
  notAsked: 'If you did not ask for this, just close the page: you will get no mail.',
  isConfirmed: 'Your subscription is confirmed',
  gets: '{address} gets {mail}.',
  everyMessage: 'Every one of its messages lets you unsubscribe. You can close this page.',
  wasConfirmed: 'Your subscription was already confirmed',
  nothingToDo: 'You need not do anything.',
  hasExpired: 'This link has expired',
  notInTime: 'It was not used in time, so {address} is not on the list “{list}”.',
  isReplaced: 'There is a newer link',
  sentAnother:
    'We sent another message to {address} after the one with this link. Please use the link in the newest one.',
  cannotFind: 'Cannot find it? Check your spam folder.',
  isWithdrawn: 'This link is no longer valid',
  noLongerGets: '{address} no longer gets the mail of “{list}”, and an old link does not change that.',
  stillWanted: 'Still want it?',
  subscribeAgain: 'Subscribe again',
  askSender: 'Ask its sender, {sender}, to add you to the list.',
  askUnknownSender: 'Ask its sender to add you to the list.',
  nothingLeft: 'There is nothing left to confirm',
  listClosed: 'The list was closed, or your address was removed from it. This link causes no mail to you.',
  isIncomplete: 'This link is incomplete',
  whatUnknown: 'Part of it is missing or wrong, so we cannot tell what to confirm. Nothing was changed.',
  openAgain: 'Open the link in the message again, or copy all of it.',
  didNotWork: 'Something went wrong',
  notStored: 'Your confirmation could not be stored, so nothing was changed. Try again in a few minutes.',
}
