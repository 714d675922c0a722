/** @module Wire shapes of contact lists and contacts. */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import { type ListInput, MAX_DESCRIPTION_LENGTH } from '#features/setup/contact-store/change-list.ts'
import { type Contact, MAX_COUNTED } from '#features/setup/contact-store/find.ts'
import { type ContactList, type ListedContactList, MAX_LISTED_BYTES } from '#features/setup/contact-store/lists.ts'
import { CONTACT_STATUSES, readContactCount } from '#features/setup/contact-store/status.ts'
import { findTemplateUuid, MAX_BODY_BYTES, MAX_SUBJECT_LENGTH } from '#features/setup/templates/templates.ts'
import { isoTimeOrNull, toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { MAX_NAME_LENGTH } from '#platform/http/validation.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB, type Millis } from '#platform/units.ts'
import { CONSENT_KINDS } from './consent.ts'

export const LIST_FIELDS = {
  id: S.Uuid({ description: 'Id of the list.' }),
  account_id: S.Uuid({ description: 'Id of the account.' }),
  name: S.Text('Name; people see it where they confirm and where they unsubscribe.'),
  description: S.TextOrNull('Purpose of the list; only its account sees it.'),
  double_opt_in: Type.Boolean({ description: 'Whether new contacts are asked by email to confirm.' }),
  contact_count: S.Count('Number of contacts, whatever their status.'),
  welcome_email_enabled: Type.Boolean({
    description: 'Whether a contact that becomes active gets a welcome email, once.',
  }),
  welcome_email_delay_seconds: S.Count('Delay of the welcome email in seconds.'),
  welcome_email_from_address: S.TextOrNull('Sender of the welcome email; null: no-reply at the first verified domain.'),
  welcome_email_subject: S.TextOrNull('Subject of the welcome email, in Jinja syntax.'),
  welcome_email_html_body: S.TextOrNull('HTML body of the welcome email, in Jinja syntax.'),
  welcome_email_text_body: S.TextOrNull('Text body of the welcome email, in Jinja syntax.'),
  welcome_email_template_id: S.UuidOrNull('Template used in place of the bodies.'),
  created_at: S.Timestamp({ description: 'When it was created.' }),
  updated_at: S.Timestamp({ description: 'When it was last changed.' }),
}

export const ContactListRecord = Type.Object(LIST_FIELDS)

export const ContactListRow = Type.Object({
  ...LIST_FIELDS,
  truncated: S.extra(
    Type.Boolean({
      description: `True when a body of more than ${MAX_LISTED_BYTES} bytes is left out (null); the contact list itself has it.`,
    }),
  ),
})

/** 30 days. */
const MAX_WELCOME_DELAY_SECONDS = 2_592_000
const SYNTAX = 'In Jinja syntax, with `contact` and `list`.'

export const ContactListBody = S.StrictObject(
  {
    name: Type.String({ minLength: 1, maxLength: MAX_NAME_LENGTH, description: 'Name, in one line.' }),
    description: S.OptionalNullable(Type.String({ maxLength: MAX_DESCRIPTION_LENGTH }), {
      description: 'Purpose of the list.',
    }),
    double_opt_in: Type.Optional(
      Type.Boolean({ description: 'Whether new contacts are asked by email to confirm; default false.' }),
    ),
    welcome_email_enabled: Type.Optional(
      Type.Boolean({ description: 'Whether a contact that becomes active gets a welcome email; default false.' }),
    ),
    welcome_email_delay_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_WELCOME_DELAY_SECONDS,
        description: 'Delay of the welcome email in seconds; default 0, at most 30 days.',
      }),
    ),
    welcome_email_from_address: S.OptionalNullable(Type.String(), {
      description: 'Sender of the welcome email, at a verified domain; null: no-reply at the first verified domain.',
    }),
    welcome_email_subject: S.OptionalNullable(Type.String(), {
      description: `Subject of the welcome email, at most ${MAX_SUBJECT_LENGTH} characters. ${SYNTAX}`,
    }),
    welcome_email_html_body: S.OptionalNullable(Type.String(), {
      description: `HTML body of the welcome email, at most ${MAX_BODY_BYTES} bytes. ${SYNTAX} Values are escaped as HTML.`,
    }),
    welcome_email_text_body: S.OptionalNullable(Type.String(), {
      description: `Text body of the welcome email, at most ${MAX_BODY_BYTES} bytes. ${SYNTAX}`,
    }),
    welcome_email_template_id: S.OptionalNullable(Type.String(), {
      description:
        'Template used in place of the bodies; a subject of the list takes precedence over that of the template.',
    }),
  },
  {
    description: 'In a change, fields that are left out keep their value.',
    examples: [
      {
        name: 'Newsletter',
        description: 'Once a month.',
        double_opt_in: true,
        welcome_email_enabled: true,
        welcome_email_subject: 'Welcome to {{ list.name }}',
        welcome_email_text_body: 'Good to have you, {{ contact.email }}.',
      },
    ],
  },
)

export const toListInput = (body: Static<typeof ContactListBody>): ListInput => ({
  name: body.name,
  description: body.description,
  doubleOptIn: body.double_opt_in,
  welcomeEnabled: body.welcome_email_enabled,
  welcomeDelaySeconds: body.welcome_email_delay_seconds,
  welcomeFrom: body.welcome_email_from_address,
  welcomeSubject: body.welcome_email_subject,
  welcomeHtml: body.welcome_email_html_body,
  welcomeText: body.welcome_email_text_body,
  welcomeTemplateId: body.welcome_email_template_id,
})

/** Reads the count, so do not call it in the transaction that changes it. */
export const listWire = (db: Database, list: ContactList, account_id: string) =>
  toWire(ContactListRecord, list, {
    account_id,
    contact_count: readContactCount(db, list.accountId, list.id),
    welcome_email_enabled: list.welcomeEnabled,
    welcome_email_delay_seconds: list.welcomeDelaySeconds,
    welcome_email_from_address: list.welcomeFrom,
    welcome_email_subject: list.welcomeSubject,
    welcome_email_html_body: list.welcomeHtml,
    welcome_email_text_body: list.welcomeText,
    welcome_email_template_id:
      list.welcomeTemplateId === null ? null : (findTemplateUuid(db, list.welcomeTemplateId) ?? null),
  })

export const listRowWire = (db: Database, list: ListedContactList, accountUuid: string) => ({
  ...listWire(db, list, accountUuid),
  truncated: list.isTruncated,
})

const STATUS_WORDS =
  'active: gets mail. pending: has not confirmed yet. unsubscribed: left the list. bounced: its address is undeliverable. complained: reported mail as spam.'

export const ContactRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the contact.' }),
  account_id: S.Uuid({ description: 'Id of the account.' }),
  list_id: S.Uuid({ description: 'Id of its list.' }),
  email: S.Text('Address as it was provided; its domain in A-labels.'),
  metadata: Type.Record(Type.String(), Type.Unknown(), {
    description: 'Your own data; templates read it as `contact`.',
  }),
  status: S.StringEnum(CONTACT_STATUSES, { description: STATUS_WORDS }),
  subscribed_at: S.Timestamp({ description: 'When it was added, confirmed, or resubscribed.' }),
  confirmed_at: S.extra(
    S.TimeOrNull(
      'When its recipient last confirmed with the link of a confirmation email; null: never, also where `confirmed` was true.',
    ),
  ),
  unsubscribed_at: S.TimeOrNull('When it left the list; null: it has not.'),
  // Not null: an older client of the interface refuses the field.
  welcome_email_sent_at: Type.Optional(
    S.Timestamp({ description: 'When its welcome email was accepted; absent: not yet.' }),
  ),
  created_at: S.Timestamp({ description: 'When it was added to the list.' }),
})
export type ContactRecord = Static<typeof ContactRecord>

export const ContactQuery = Type.Object({
  ...S.PAGE_FIELDS,
  status: Type.Optional(S.StringEnum(CONTACT_STATUSES, { description: 'Only contacts with this status.' })),
  email: Type.Optional(S.Text('Only this address, in any spelling.')),
  starts_with: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 320,
      description: `Only addresses that begin with this, sorted by address instead of newest first. \`total\` counts to ${MAX_COUNTED}. Not together with \`email\`.`,
    }),
  ),
})

/** Maximum size of a contact's metadata as JSON. */
export const MAX_METADATA_BYTES = 16 * KiB

/** Maximum number of contacts in one request. */
export const MAX_CONTACTS_PER_REQUEST = 10_000

const Email = S.Text('Address; a display name is dropped.')
const Metadata = S.Nullable(S.FreeMap(), {
  description: `Your own data, at most ${MAX_METADATA_BYTES} bytes of JSON; templates read it as \`contact\`.`,
})

/** One of `contacts`. */
export const ContactItem = S.StrictObject({ email: Email, metadata: Type.Optional(Metadata) })

/** `contacts` are checked one by one: problems of one are listed in `errors` and do not fail the others. */
export const NewContactBody = S.StrictObject(
  {
    email: Type.Optional(Email),
    metadata: Type.Optional(Metadata),
    contacts: Type.Optional(
      Type.Array(Type.Unknown({ ...ContactItem }), {
        // The handler checks that there is at least one, after it has found the list.
        maxItems: MAX_CONTACTS_PER_REQUEST,
        description: `Several contacts, 1 to ${MAX_CONTACTS_PER_REQUEST}.`,
      }),
    ),
    confirmed: Type.Optional(
      Type.Boolean({
        description:
          'Whether the contacts have already agreed, so that no confirmation requests are sent; default false.',
      }),
    ),
  },
  {
    description: 'Either `email`, optionally with `metadata`, or `contacts`.',
    examples: [{ email: 'ada@example.com', metadata: { first_name: 'Ada' } }],
  },
)

export const ContactChangeBody = S.StrictObject(
  { metadata: Metadata },
  {
    description: 'The metadata replaces the previous metadata.',
    examples: [{ metadata: { first_name: 'Ada' } }],
  },
)

export const AddedContacts = Type.Object({
  data: Type.Union(
    [
      ContactRecord,
      Type.Object({
        inserted: S.Count('Number of contacts that are new on the list.'),
        duplicates: S.extra(
          S.Count('Number of contacts that were already on the list, or occurred twice; they stay as they are.'),
        ),
        total_requested: S.Count('Number of contacts in the request.'),
      }),
    ],
    { description: 'For `email`, the contact; for `contacts`, their counts.' },
  ),
  errors: Type.Optional(
    Type.Array(
      Type.Object({
        index: Type.Integer({ minimum: 0, description: 'Position in the request, from 0.' }),
        error: S.Text('Why it was not added.'),
      }),
      { description: 'The `contacts` that were not added; one that is already on the list is not an error.' },
    ),
  ),
})

/** A contact added as active has `confirmedAt` equal to `createdAt`: its recipient never confirmed. */
const findLinkConfirmation = ({ confirmedAt, createdAt }: Contact): Millis | null =>
  confirmedAt === createdAt ? null : confirmedAt

export const contactWire = (contact: Contact, list: ContactList, account_id: string): ContactRecord =>
  toWire(
    ContactRecord,
    { ...contact, welcomeEmailSentAt: contact.welcomeSentAt },
    {
      account_id,
      list_id: formatUuid(list.uuid),
      metadata: contact.metadata === null ? {} : JSON.parse(contact.metadata),
      confirmed_at: isoTimeOrNull(findLinkConfirmation(contact)),
    },
  )

/** What an import would read from the beginning of a file. */
export const ImportPreviewRecord = Type.Object({
  columns: Type.Array(
    Type.Object({
      name: S.TextOrNull('As the file names it; null: the file has no header.'),
      kind: S.StringEnum(['email', 'metadata', 'field', 'passed over', ...CONSENT_KINDS], {
        description:
          'email, metadata (a JSON object), field (metadata of this name), passed over (ignored), status (its words say it), or the status that yes in it means: subscribed, confirmed, unsubscribed, bounced or complained.',
      }),
    }),
    { description: 'The columns in their order.' },
  ),
  contacts: Type.Array(
    Type.Object({
      line: S.Count('Line in the file, from 1.'),
      email: S.Text('Address.'),
      status: S.Nullable(S.StringEnum(CONTACT_STATUSES), { description: 'Status; null: as the list says.' }),
      metadata: Type.Record(Type.String(), Type.Unknown(), { description: 'Metadata.' }),
    }),
    { description: 'The first contacts.' },
  ),
  checked: S.Count('Number of lines that were checked.'),
  invalid: S.Count('Number of them that would not be imported.'),
  problems: Type.Array(
    Type.Object({
      line: S.Count('Line in the file, from 1.'),
      error: S.Text('Why it would not be imported.'),
    }),
    { description: 'The first 100 of these.' },
  ),
  questions: Type.Array(
    Type.Object({
      column: S.Text('Its name; empty: it has none.'),
      values: Type.Array(Type.String(), { description: 'Its first 20 values that are not understood.' }),
    }),
    {
      description:
        'Columns that may say who gets no mail, and are not understood: the import stops until `columns` answers.',
    },
  ),
})
export type ImportPreviewRecord = Static<typeof ImportPreviewRecord>
