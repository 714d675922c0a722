/** @module Queries and changes of templates. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import type { MemberRecord } from '#features/people/team/model.ts'
import type { SendResponse } from '#features/sending/accept/model.ts'
import type {
  DraftResult,
  TemplateRecord,
  TemplateRow,
  TemplateVersionRecord,
  TemplateVersionRow,
} from '#features/setup/templates/model.ts'
import type { TemplateFields } from '../screens/templates/texts.ts'
import { newIdempotencyKey, requestData } from './client.ts'
import { usePage, useRecord, useStore } from './data.ts'

/** All stored versions. */
const MAX_VERSIONS = 50

export const toTemplatePath = (id: string, rest = ''): string => `/v1/templates/${encodeURIComponent(id)}${rest}`
const templateKey = (id: string) => ['templates', 'one', id]
export const versionsKey = (id: string) => ['templates', 'versions', id]
export const TEMPLATES_KEY = ['templates', 'list']

export const useTemplates = (page: number, search: string | undefined) =>
  usePage<TemplateRow>(TEMPLATES_KEY, '/v1/templates', { page, search })

/** @param id undefined: nothing is read */
export const useTemplate = (id: string | undefined) =>
  useRecord<TemplateRecord>(templateKey(id ?? ''), toTemplatePath(id ?? ''), { enabled: id !== undefined })

/** Returns a function that reads a template as it is now. */
export function useReadTemplate(id: string): () => Promise<TemplateRecord> {
  const queries = useQueryClient()
  return () =>
    queries.fetchQuery({
      queryKey: templateKey(id),
      queryFn: () => requestData<TemplateRecord>('GET', toTemplatePath(id)),
      staleTime: 0,
    })
}

/** The texts as `/v1` takes them: an empty body is none. */
export interface TemplateSaving {
  /** Undefined: a new template is created. */
  readonly id: string | undefined
  readonly ifVersion?: number | undefined
  readonly fields: Partial<TemplateFields>
}

export const useSaveTemplate = () =>
  useStore(
    ({ id, ifVersion, fields }: TemplateSaving) =>
      id === undefined
        ? requestData<TemplateRecord>('POST', '/v1/templates', { body: fields })
        : requestData<TemplateRecord>('PUT', toTemplatePath(id), { body: { ...fields, if_version: ifVersion } }),
    ({ id }) => templateKey(id),
    TEMPLATES_KEY,
    ['templates', 'versions'],
  )

export const useVersions = (id: string) =>
  useRecord<TemplateVersionRow[]>(versionsKey(id), toTemplatePath(id, '/versions'), {
    query: { per_page: MAX_VERSIONS },
  })

/** @param version undefined: nothing is read */
export const useVersion = (id: string, version: number | undefined) =>
  useRecord<TemplateVersionRecord>(['templates', 'version', id, version], toTemplatePath(id, `/versions/${version}`), {
    enabled: version !== undefined,
    // A stored version does not change.
    staleTime: Number.POSITIVE_INFINITY,
  })

export const useRestoreVersion = (id: string) =>
  useStore(
    ({ version, ifVersion }: { readonly version: number; readonly ifVersion: number }) =>
      requestData<TemplateRecord>('POST', toTemplatePath(id, `/versions/${version}/restore`), {
        body: { if_version: ifVersion },
      }),
    () => templateKey(id),
    TEMPLATES_KEY,
    versionsKey(id),
  )

/** The members of the team, to name who saved a version. */
export const useMembers = () =>
  useRecord<MemberRecord[]>(['team', 'members'], '/v1/team', { query: { per_page: 100 }, staleTime: 60_000 })

export interface DraftSource {
  readonly subject: string
  readonly html_body: string
  readonly text_body: string
  readonly template_data: Readonly<Record<string, unknown>>
}

/** Renders unsaved text. */
export const renderDraft = (body: DraftSource, signal: AbortSignal): Promise<DraftResult> =>
  requestData<DraftResult>('POST', '/v1/templates/render', { body, signal })

export interface TestEmail {
  readonly from: string
  readonly to: string
  readonly subject: string
  readonly html_body?: string
  readonly text_body?: string
}

export const useSendTestEmail = () =>
  useMutation({
    mutationFn: async (email: TestEmail): Promise<SendResponse> => {
      const body = { ...email, tags: ['test-email'], tracking: false }
      const options = { body, idempotencyKey: newIdempotencyKey() }
      return await requestData<SendResponse>('POST', '/v1/emails', options)
    },
  })
