/** @module Wire form of templates. */
import { type Static, Type } from '@sinclair/typebox'
import { toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { MAX_NAME_LENGTH } from '#platform/http/validation.ts'
import type { RenderedParts } from '#platform/template/renderer.ts'
import {
  type ListedTemplate,
  MAX_ALIAS_LENGTH,
  MAX_BODY_BYTES,
  MAX_LISTED_BYTES,
  MAX_SUBJECT_LENGTH,
  MAX_TEST_DATA_BYTES,
  type Template,
  type TemplateChange,
  type TemplateInput,
} from './templates.ts'
import { type ListedVersion, MAX_VERSIONS, type TemplateVersion } from './versions.ts'

const FIELDS = {
  id: S.Uuid({ description: 'Id of the template.' }),
  account_id: S.Uuid({ description: 'Account that the template belongs to.' }),
  alias: Type.String({ description: 'Value of `template_alias` in a send.' }),
  locale: S.extra(
    S.Nullable(Type.String(), { description: 'Language, as a BCP 47 tag; null: for all that have no template.' }),
  ),
  name: Type.String({ description: 'Name.' }),
  subject: Type.String({ description: 'Source of the subject.' }),
  html_body: S.Nullable(Type.String(), { description: 'Source of the HTML body; null: none.' }),
  text_body: S.Nullable(Type.String(), { description: 'Source of the text body; null: none.' }),
  version: S.extra(Type.Integer({ description: '1 at first; incremented with each change of subject or bodies.' })),
  created_at: S.Timestamp({ description: 'When the template was created.' }),
  updated_at: S.Timestamp({ description: 'When the template was last changed.' }),
}

export const TemplateRecord = Type.Object({
  ...FIELDS,
  test_data: S.extra(
    S.Nullable(Type.Record(Type.String(), Type.Unknown()), {
      description: 'Values for previews and test emails; null: none.',
    }),
  ),
})

export const TemplateRow = Type.Object({
  ...FIELDS,
  truncated: S.extra(
    Type.Boolean({
      description: `True when a body of more than ${MAX_LISTED_BYTES} bytes is omitted (null); get the template to read it.`,
    }),
  ),
})

const MAX_SEARCH_LENGTH = 200

export const TemplateListQuery = Type.Object({
  ...S.PAGE_FIELDS,
  search: Type.Optional(
    Type.String({
      maxLength: MAX_SEARCH_LENGTH,
      description: 'Only templates whose alias or name contains this text; the case of A to Z does not matter.',
    }),
  ),
  alias: Type.Optional(Type.String({ description: 'Only templates with exactly this alias: its languages.' })),
})

const SYNTAX = 'In Jinja syntax.'
const Alias = S.Text(
  `Value of \`template_alias\` in a send: 1 to ${MAX_ALIAS_LENGTH} characters of A to Z, a to z, 0 to 9, ".", "_" and "-".`,
)
const Locale = S.OptionalNullable(Type.String(), {
  description:
    'Language of this template as a BCP 47 tag, such as `de-AT`, so that several templates have one alias; null: for all languages without one.',
})
const Name = Type.String({ minLength: 1, maxLength: MAX_NAME_LENGTH, description: 'Name.' })
const Subject = Type.String({
  minLength: 1,
  description: `Subject, at most ${MAX_SUBJECT_LENGTH} characters. ${SYNTAX} The rendered subject is joined into one line.`,
})
const Html = S.OptionalNullable(Type.String(), {
  description: `HTML body, at most ${MAX_BODY_BYTES} bytes. ${SYNTAX} Values are escaped as HTML.`,
})
const Text = S.OptionalNullable(Type.String(), {
  description: `Text body, at most ${MAX_BODY_BYTES} bytes. ${SYNTAX}`,
})

const TestData = S.OptionalNullable(S.FreeMap(), {
  description: `Values for previews and test emails, at most ${MAX_TEST_DATA_BYTES} bytes of JSON. Sends do not use them.`,
})

const IfVersion = Type.Optional(
  Type.Integer({
    minimum: 1,
    description:
      'The `version` that the change is based on: 409 `template_changed` when the template has another one. Left out: the last change wins.',
  }),
)

export const NewTemplate = S.StrictObject(
  { alias: Alias, locale: Locale, name: Name, subject: Subject, html_body: Html, text_body: Text, test_data: TestData },
  {
    examples: [
      {
        alias: 'welcome',
        name: 'Welcome',
        subject: 'Welcome, {{ user.name }}',
        html_body: '<p>Hello {{ user.name }}.</p>',
        text_body: 'Hello {{ user.name }}.',
      },
    ],
  },
)

export const ImportedTemplate = S.StrictObject({
  ...NewTemplate.properties,
  foreign_id: Type.Integer({ description: 'Its number at the provider, by which clients may still name it.' }),
})

export const TemplateChangeBody = S.StrictObject(
  {
    alias: Type.Optional(Alias),
    locale: Locale,
    name: Type.Optional(Name),
    subject: Type.Optional(Subject),
    html_body: Html,
    text_body: Text,
    test_data: TestData,
    if_version: IfVersion,
  },
  {
    description:
      'At least one field besides `if_version`; omitted fields keep their value. Null removes a body or the test data. A new alias of a template without locale is that of its other languages too.',
    examples: [{ subject: 'Welcome aboard, {{ user.name }}' }],
  },
)

export const toTemplateInput = ({
  html_body: htmlBody = null,
  text_body: textBody = null,
  test_data: testData = null,
  ...body
}: Static<typeof NewTemplate>): TemplateInput => ({ ...body, htmlBody, textBody, testData: toTestData(testData) })

export const toTemplateChange = ({
  html_body: htmlBody,
  text_body: textBody,
  test_data: testData,
  ...body
}: Omit<Static<typeof TemplateChangeBody>, 'if_version'>): TemplateChange => ({
  ...body,
  htmlBody,
  textBody,
  testData: testData === undefined ? undefined : toTestData(testData),
})

const toTestData = (data: Static<typeof TestData>): string | null => (data ? JSON.stringify(S.mapFromPhp(data)) : null)

export const toTemplateWire = (template: Template, account_id: string) =>
  toWire(TemplateRecord, template, { account_id, test_data: readTestData(template) ?? null })

export const toTemplateRowWire = (template: ListedTemplate, account_id: string) =>
  toWire(TemplateRow, template, { account_id, truncated: template.isTruncated === 1 })

export const RenderBody = S.StrictObject(
  {
    template_data: S.OptionalNullable(S.FreeMap(), {
      description: 'Values for the template, as in a send. Left out: its `test_data`.',
    }),
    locale: S.OptionalNullable(Type.String(), {
      description: 'Renders what a send with the alias of this template and this locale would use.',
    }),
  },
  { examples: [{ template_data: { user: { name: 'Ada' } } }] },
)

/** The provided map, empty for null; PHP sends an empty one as `[]`. */
export const readRenderData = ({
  template_data,
}: Pick<Static<typeof RenderBody>, 'template_data'>): Record<string, unknown> | undefined =>
  template_data === null ? {} : (S.mapFromPhp(template_data) ?? undefined)

export const readTestData = ({ testData }: Pick<Template, 'testData'>): Record<string, unknown> | undefined =>
  testData === null ? undefined : JSON.parse(testData)

export const RenderedTemplate = Type.Object({
  subject: Type.String({ description: 'Subject in one line.' }),
  html_body: S.Nullable(Type.String(), { description: 'HTML body; null: the template has none.' }),
  text_body: S.Nullable(Type.String(), { description: 'Text body; null: the template has none.' }),
})
export type RenderedTemplate = Static<typeof RenderedTemplate>

export const toRenderedWire = ({ subject, html, text }: RenderedParts): RenderedTemplate => ({
  subject: subject ?? '',
  html_body: html ?? null,
  text_body: text ?? null,
})

const VERSION_FIELDS = {
  version: Type.Integer({ description: 'Number of the version; the highest is that of the template.' }),
  subject: Type.String({ description: 'Source of the subject.' }),
  actor_type: Type.String({ description: 'Who saved it: user, api_key, system or operator.' }),
  actor_id: Type.String({ description: 'Id of the key or user, as in the audit log.' }),
  created_at: S.Timestamp({ description: 'When it was saved.' }),
}

export const TemplateVersionRow = Type.Object(VERSION_FIELDS)

export const TemplateVersionRecord = Type.Object({
  ...VERSION_FIELDS,
  html_body: S.Nullable(Type.String(), { description: 'Source of the HTML body; null: none.' }),
  text_body: S.Nullable(Type.String(), { description: 'Source of the text body; null: none.' }),
})

export const VERSIONS_DESCRIPTION = `Each change of subject or bodies stores a version. The newest ${MAX_VERSIONS} are stored, until the template is deleted.`

export const RestoreBody = S.StrictObject({ if_version: IfVersion })

export const toVersionRowWire = (version: ListedVersion) => toWire(TemplateVersionRow, version, {})

export const toVersionWire = (version: TemplateVersion) => toWire(TemplateVersionRecord, version, {})

export const DraftBody = S.StrictObject(
  {
    subject: S.OptionalNullable(Type.String(), { description: `Source of the subject. ${SYNTAX}` }),
    html_body: Html,
    text_body: Text,
    template_data: S.OptionalNullable(S.FreeMap(), { description: 'Values for the template, as in a send.' }),
  },
  {
    description: 'At least one of subject and bodies.',
    examples: [{ subject: 'Welcome, {{ user.name }}', template_data: { user: { name: 'Ada' } } }],
  },
)

const PROBLEM_KINDS = ['syntax', 'missing_variable', 'limit', 'error'] as const

export const RenderProblem = Type.Object({
  field: S.StringEnum(['subject', 'html_body', 'text_body', 'template_data'], { description: 'Where the problem is.' }),
  line: S.Nullable(Type.Integer(), { description: 'Line of the source, from 1; null when it is in no single line.' }),
  column: S.Nullable(Type.Integer(), {
    description: 'Column in UTF-16 code units, from 1; null when it is not known.',
  }),
  variable: S.Nullable(Type.String(), { description: 'The variable that is missing in `template_data`, or null.' }),
  kind: S.StringEnum(PROBLEM_KINDS, {
    description:
      '`syntax`: it never works. `missing_variable`: a variable is not in `template_data`. `limit`: it takes too much time or memory, or is too long. `error`: any other.',
  }),
  message: Type.String({ description: 'What is wrong, as in the error of a send.' }),
})
export type RenderProblem = Static<typeof RenderProblem>

export const DraftResult = Type.Object({
  subject: S.Nullable(Type.String(), { description: 'Subject in one line; null: left out, or it has a problem.' }),
  html_body: S.Nullable(Type.String(), { description: 'HTML body; null: left out, or it has a problem.' }),
  text_body: S.Nullable(Type.String(), { description: 'Text body; null: left out, or it has a problem.' }),
  problems: Type.Array(RenderProblem, { description: 'Why a send would be refused; empty: it would not be.' }),
  preview_id: S.TextOrNull(
    'For signed-in users: the HTML is at `/app/previews/{preview_id}` for ten minutes, for a frame. Null for keys, and without HTML.',
  ),
})
export type DraftResult = Static<typeof DraftResult>
