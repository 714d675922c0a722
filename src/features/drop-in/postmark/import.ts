/**
 * @module Reads the templates of a server at Postmark, and converts them into templates of ours, with their layouts.
 * Stores nothing.
 */

import type { TemplateInput } from '#features/setup/templates/templates.ts'
import { isJsonObject, type JsonObject, parseJsonObject } from '#platform/json-object.ts'
import { MiB } from '#platform/units.ts'
import { convertMustachio } from './mustachio.ts'

/** A template as Postmark's API returns it. */
export interface ForeignTemplate {
  readonly TemplateId: number
  readonly Name: string
  readonly Alias: string | null
  readonly Subject: string
  readonly HtmlBody: string | null
  readonly TextBody: string | null
  readonly LayoutTemplate: string | null
  readonly isLayout: boolean
}

export interface ConvertedTemplate {
  readonly foreignId: number
  readonly input: TemplateInput
  /** What could not be converted; empty: everything was. */
  readonly problems: readonly string[]
}

/** An API that failed, in one sentence for the operator. */
export class ImportError extends Error {}

const PAGE_SIZE = 100
const MAX_TEMPLATES = 10_000
const MAX_RESPONSE_BYTES = 5 * MiB
const CONTENT = /\{\{\{\s*@content\s*\}\}\}/g

const toText = (value: unknown): string => (typeof value === 'string' ? value : '')
const toTextOrNull = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)

/**
 * Reads all active templates and layouts.
 * @param get returns the response to a GET of a path
 */
export async function readForeignTemplates(get: (path: string) => Promise<Response>): Promise<ForeignTemplate[]> {
  const templates: ForeignTemplate[] = []
  for (let offset = 0; offset < MAX_TEMPLATES; offset += PAGE_SIZE) {
    const page = await readJson(await get(`/templates?count=${PAGE_SIZE}&offset=${offset}&templateType=All`))
    const listed = Array.isArray(page['Templates']) ? page['Templates'].filter(isJsonObject) : []
    for (const { TemplateId, Active } of listed) {
      if (Active !== false && Number.isSafeInteger(TemplateId))
        templates.push(toForeignTemplate(await readJson(await get(`/templates/${String(TemplateId)}`))))
    }
    if (listed.length < PAGE_SIZE) return templates
  }
  return templates
}

const toForeignTemplate = (body: JsonObject): ForeignTemplate => ({
  TemplateId: Number(body['TemplateId']),
  Name: toText(body['Name']),
  Alias: toTextOrNull(body['Alias']),
  Subject: toText(body['Subject']),
  HtmlBody: toTextOrNull(body['HtmlBody']),
  TextBody: toTextOrNull(body['TextBody']),
  LayoutTemplate: toTextOrNull(body['LayoutTemplate']),
  isLayout: body['TemplateType'] === 'Layout',
})

/** The JSON object of a response. Throws ImportError for an error and for any other response. */
async function readJson(response: Response): Promise<JsonObject> {
  const chunks: Uint8Array[] = []
  let sizeBytes = 0
  for await (const chunk of response.body ?? []) {
    sizeBytes += chunk.length
    if (sizeBytes > MAX_RESPONSE_BYTES) throw new ImportError('A response of Postmark is larger than 5 MiB.')
    chunks.push(chunk)
  }
  const body = parseJsonObject(Buffer.concat(chunks).toString())
  const message = toText(body?.['Message'])
  if (response.status === 401) throw new ImportError(`Postmark refused the token: ${message || 'status 401'}`)
  if (response.status !== 200 || !body)
    throw new ImportError(`Postmark responded with status ${response.status}${message && `: ${message}`}`)
  return body
}

/** Converts all templates; layouts are put into the templates that use them. */
export function convertTemplates(templates: readonly ForeignTemplate[]): ConvertedTemplate[] {
  const layouts = new Map(templates.flatMap((template) => (template.isLayout ? [[template.Alias, template]] : [])))
  return templates.filter(({ isLayout }) => !isLayout).map((template) => convertTemplate(template, layouts))
}

function convertTemplate(
  template: ForeignTemplate,
  layouts: ReadonlyMap<string | null, ForeignTemplate>,
): ConvertedTemplate {
  const problems: string[] = []
  const layout = template.LayoutTemplate === null ? undefined : layouts.get(template.LayoutTemplate)
  if (template.LayoutTemplate !== null && !layout) problems.push(`its layout "${template.LayoutTemplate}" is missing`)
  const convert = (name: 'Subject' | 'HtmlBody' | 'TextBody', source: string | null): string | null => {
    if (source === null) return null
    const conversion = convertMustachio(source, name === 'HtmlBody')
    problems.push(...conversion.problems.map((problem) => `${name}, ${problem}`))
    return conversion.source
  }
  const { TemplateId, Alias, Name } = template
  const alias = Alias ?? `postmark-${TemplateId}`
  return {
    foreignId: TemplateId,
    input: {
      alias,
      name: Name || alias,
      subject: convert('Subject', template.Subject) ?? '',
      htmlBody: convert('HtmlBody', putInto(layout?.HtmlBody, template.HtmlBody)),
      textBody: convert('TextBody', putInto(layout?.TextBody, template.TextBody)),
    },
    problems,
  }
}

const putInto = (layout: string | null | undefined, body: string | null): string | null =>
  layout && body !== null ? layout.replace(CONTENT, () => body) : body
