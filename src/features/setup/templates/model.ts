/** @module Wire form of templates. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime } from '#platform/http/envelope.ts'
import {
  FreeMap,
  mapFromPhp,
  Nullable,
  OptionalNullable,
  StrictObject,
  Timestamp,
  Uuid,
} from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { RenderedParts } from '#platform/template/renderer.ts'
import {
  type ListedTemplate,
  MAX_ALIAS_LENGTH,
  MAX_BODY_BYTES,
  MAX_LISTED_BYTES,
  MAX_NAME_LENGTH,
  MAX_SUBJECT_LENGTH,
  type Template,
  type TemplateChange,
  type TemplateInput,
} from './templates.ts'

const FIELDS = {
  id: Uuid({ description: 'Id of the template.' }),
  account_id: Uuid({ description: 'Account that the template belongs to.' }),
  alias: Type.String({ description: 'Value of `template_alias` in a send.' }),
  name: Type.String({ description: 'Name.' }),
  subject: Type.String({ description: 'Source of the subject.' }),
  html_body: Nullable(Type.String(), { description: 'Source of the HTML body; null: none.' }),
  text_body: Nullable(Type.String(), { description: 'Source of the text body; null: none.' }),
  version: Type.Integer({ description: '1 at first; incremented with each change of subject or bodies.' }),
  created_at: Timestamp({ description: 'When the template was created.' }),
  updated_at: Timestamp({ description: 'When the template was last changed.' }),
}

export const TemplateRecord = Type.Object(FIELDS)
export type TemplateRecord = Static<typeof TemplateRecord>

export const TemplateRow = Type.Object({
  ...FIELDS,
  truncated: Type.Boolean({
    description: `True when a body of more than ${MAX_LISTED_BYTES} bytes is omitted (null); get the template to read it.`,
  }),
})
export type TemplateRow = Static<typeof TemplateRow>

const SYNTAX = 'In Jinja syntax.'
const Alias = Type.String({
  description: `Value of \`template_alias\` in a send: 1 to ${MAX_ALIAS_LENGTH} characters of A to Z, a to z, 0 to 9, ".", "_" and "-".`,
})
const Name = Type.String({ minLength: 1, maxLength: MAX_NAME_LENGTH, description: 'Name.' })
const Subject = Type.String({
  minLength: 1,
  description: `Subject, at most ${MAX_SUBJECT_LENGTH} characters. ${SYNTAX} The rendered subject is joined into one line.`,
})
const Html = OptionalNullable(Type.String(), {
  description: `HTML body, at most ${MAX_BODY_BYTES} bytes. ${SYNTAX} Values are escaped as HTML.`,
})
const Text = OptionalNullable(Type.String(), {
  description: `Text body, at most ${MAX_BODY_BYTES} bytes. ${SYNTAX}`,
})

export const NewTemplate = StrictObject(
  { alias: Alias, name: Name, subject: Subject, html_body: Html, text_body: Text },
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

export const TemplateChangeBody = StrictObject(
  {
    alias: Type.Optional(Alias),
    name: Type.Optional(Name),
    subject: Type.Optional(Subject),
    html_body: Html,
    text_body: Text,
  },
  {
    description: 'At least one field; omitted fields keep their value. Null removes a body.',
    examples: [{ subject: 'Welcome aboard, {{ user.name }}' }],
  },
)

export const toTemplateInput = (body: Static<typeof NewTemplate>): TemplateInput => ({
  alias: body.alias,
  name: body.name,
  subject: body.subject,
  htmlBody: body.html_body ?? null,
  textBody: body.text_body ?? null,
})

export const toTemplateChange = (body: Static<typeof TemplateChangeBody>): TemplateChange => ({
  alias: body.alias,
  name: body.name,
  subject: body.subject,
  htmlBody: body.html_body,
  textBody: body.text_body,
})

export const toTemplateWire = (template: Template, accountUuid: string): TemplateRecord => ({
  id: formatUuid(template.uuid),
  account_id: accountUuid,
  alias: template.alias,
  name: template.name,
  subject: template.subject,
  html_body: template.htmlBody,
  text_body: template.textBody,
  version: template.version,
  created_at: isoTime(template.createdAt),
  updated_at: isoTime(template.updatedAt),
})

export const toTemplateRowWire = (template: ListedTemplate, accountUuid: string): TemplateRow => ({
  ...toTemplateWire(template, accountUuid),
  truncated: template.isTruncated,
})

export const RenderBody = StrictObject(
  {
    template_data: OptionalNullable(FreeMap(), { description: 'Values for the template, as in a send.' }),
  },
  { examples: [{ template_data: { user: { name: 'Ada' } } }] },
)

/** The provided map; PHP sends an empty one as `[]`. */
export const readRenderData = ({ template_data }: Static<typeof RenderBody>): Record<string, unknown> =>
  mapFromPhp(template_data) ?? {}

export const RenderedTemplate = Type.Object({
  subject: Type.String({ description: 'Subject in one line.' }),
  html_body: Nullable(Type.String(), { description: 'HTML body; null: the template has none.' }),
  text_body: Nullable(Type.String(), { description: 'Text body; null: the template has none.' }),
})
export type RenderedTemplate = Static<typeof RenderedTemplate>

export const toRenderedWire = ({ subject, html, text }: RenderedParts): RenderedTemplate => ({
  subject: subject ?? '',
  html_body: html ?? null,
  text_body: text ?? null,
})
