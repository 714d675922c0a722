/**
 * @module The English texts of the unsubscribe pages, and the purpose of each. Readers know the sender, not this
 * service. Names in braces are filled in. Contains no HTML.
 */

import type { OwnWords } from '#features/setup/wording/wording.ts'
import type { Language } from '#platform/http/language.ts'

/**
 * The texts of all pages in one language. {address}, {sender} and {part} are names; {mail} is one of the `noMore…` or
 * `asBefore…`.
 */
export interface Texts {
  readonly language: Language
  /** What the account has set in place of ours, or beside ours. */
  readonly own?: OwnWords

  readonly unsubscribe: string
  readonly unsubscribeAll: string
  readonly subscribeAgain: string

  /** Text in place of {sender} if the sender is unknown: within a sentence, and at its start. */
  readonly thisSender: string
  readonly thisSenderAtStart: string

  /** The mail of a link, as in "gets no more {mail}": all mail, part of it, and a part with a name. */
  readonly noMoreAll: string
  readonly noMorePart: string
  readonly noMoreNamed: string
  /** The mail of a link, as in "gets {mail} as before". */
  readonly asBeforeAll: string
  readonly asBeforePart: string
  readonly asBeforeNamed: string

  readonly question: string
  readonly willStop: string

  readonly isOff: string
  readonly hasStopped: string
  readonly mayStillArrive: string
  readonly wasItMistake: string

  readonly orAll: string
  readonly offerAll: string
  readonly essentialComes: string

  readonly isOn: string
  readonly hasStarted: string
  readonly changedMind: string

  readonly getsNothing: string
  readonly sendsNothing: string
  readonly wantMail: string
  readonly askSender: string
  readonly orForGood: string
  readonly offerForGood: string

  readonly senderGone: string

  readonly linkIsCut: string
  readonly whomUnknown: string
  readonly followAgain: string

  readonly didNotWork: string
  readonly tooOften: string
  readonly notStored: string
}

export const english: Texts = {
  language: 'en',
  unsubscribe: 'Unsubscribe',
  unsubscribeAll: 'Unsubscribe from all',
  subscribeAgain: 'Subscribe again',
  thisSender: 'this sender',
  thisSenderAtStart: 'This sender',
  noMoreAll: 'newsletters, offers or similar mail from {sender}',
  noMorePart: 'mail like this from {sender}',
  noMoreNamed: 'mail of “{part}” from {sender}',
  asBeforeAll: 'newsletters, offers or similar mail from {sender}',
  asBeforePart: 'mail like this from {sender}',
  asBeforeNamed: 'mail of “{part}” from {sender}',
  question: 'Unsubscribe?',
  willStop: '{address} will then get no more {mail}.',
  isOff: 'You are unsubscribed',
  hasStopped: '{address} gets no more {mail}.',
  mayStillArrive: 'Mail sent before may still arrive.',
  wasItMistake: 'Was it a mistake?',
  orAll: 'Or stop all such mail',
  offerAll: 'No newsletters, offers or similar mail from {sender} at all.',
  essentialComes: 'You will still get mail about your own actions, such as a receipt or a new password.',
  isOn: 'You are subscribed again',
  hasStarted: '{address} gets {mail} as before.',
  changedMind: 'Changed your mind?',
  getsNothing: 'You get no mail from this sender',
  sendsNothing: '{sender} sends nothing at all to {address}, not even receipts or new passwords.',
  wantMail: 'Do you want mail again?',
  askSender:
    'This cannot be changed here. Reply to a message from {sender}, or contact the sender in another way, and ask for it.',
  orForGood: 'Or stay unsubscribed permanently',
  offerForGood: 'Then you will get no more {mail}, even if the sender sends to you again.',
  senderGone: '{address} no longer gets mail from {sender} through this service. There is nothing else to do.',
  linkIsCut: 'This link is incomplete',
  whomUnknown: 'Part of it is missing or wrong, so the recipient is unknown. Nothing was changed.',
  followAgain:
    'Open the link in the message again. If that does not help, reply to the message and ask the sender to remove you from the list.',
  didNotWork: 'Something went wrong',
  tooOften: 'This was changed too often. Try again in an hour.',
  notStored: 'This could not be stored, so nothing was changed. Try again in a few minutes.',
}
