/** @module Queries and changes of templates. */
import { type QueryClient, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
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
import { get, newIdempotencyKey, request, requestData } from './client.ts'
import { usePage, useRecord } from './read.ts'

const PAGE_SIZE = 50
/** All stored versions. */
const MAX_VERSIONS = 50

const toPath = (id: string, rest = ''): string => `/v1/templates/${encodeURIComponent(id)}${rest}`
const templateKey = (id: string) => ['templates', 'one', id]
const versionsKey = (id: string) => ['templates', 'versions', id]

export const useTemplates = (page: number, search: string | undefined) =>
  usePage<TemplateRow>(['templates', 'list', page, search], '/v1/templates', { page, per_page: PAGE_SIZE, search })

const readTemplate = async (id: string, signal?: AbortSignal): Promise<TemplateRecord> =>
  (await get<{ data: TemplateRecord }>(toPath(id), {}, signal)).data

/** @param id undefined: nothing is read */
export const useTemplate = (id: string | undefined) =>
  useQuery({
    queryKey: templateKey(id ?? ''),
    queryFn: ({ signal }) => readTemplate(id ?? '', signal),
    enabled: id !== undefined,
  })

/** Returns a function that reads a template as it is now. */
export function useReadTemplate(id: string): () => Promise<TemplateRecord> {
  const queries = useQueryClient()
  return () => queries.fetchQuery({ queryKey: templateKey(id), queryFn: () => readTemplate(id), staleTime: 0 })
}

function storeTemplate(queries: QueryClient, template: TemplateRecord): void {
  queries.setQueryData(templateKey(template.id), template)
  void queries.invalidateQueries({ queryKey: ['templates', 'list'] })
  void queries.invalidateQueries({ queryKey: versionsKey(template.id) })
}

/** The texts as `/v1` takes them: an empty body is none. */
export interface TemplateSaving {
  /** Undefined: a new template is created. */
  readonly id: string | undefined
  readonly ifVersion?: number | undefined
  readonly fields: Partial<TemplateFields>
}

export function useSaveTemplate() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async ({ id, ifVersion, fields }: TemplateSaving): Promise<TemplateRecord> => {
      const { data } =
        id === undefined
          ? await request<{ data: TemplateRecord }>('POST', '/v1/templates', { body: fields })
          : await request<{ data: TemplateRecord }>('PUT', toPath(id), { body: { ...fields, if_version: ifVersion } })
      return data
    },
    onSuccess: (template) => storeTemplate(queries, template),
  })
}

export function useDeleteTemplate(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: () => request<void>('DELETE', toPath(id)),
    onSuccess: () => {
      queries.removeQueries({ queryKey: versionsKey(id) })
      void queries.invalidateQueries({ queryKey: ['templates', 'list'] })
    },
  })
}

export const useVersions = (id: string) =>
  useRecord<TemplateVersionRow[]>(versionsKey(id), toPath(id, '/versions'), { query: { per_page: MAX_VERSIONS } })

/** @param version undefined: nothing is read */
export const useVersion = (id: string, version: number | undefined) =>
  useRecord<TemplateVersionRecord>(['templates', 'version', id, version], toPath(id, `/versions/${version}`), {
    enabled: version !== undefined,
    // A stored version does not change.
    staleTime: Number.POSITIVE_INFINITY,
  })

export function useRestoreVersion(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: ({ version, ifVersion }: { readonly version: number; readonly ifVersion: number }) =>
      requestData<TemplateRecord>('POST', toPath(id, `/versions/${version}/restore`), {
        body: { if_version: ifVersion },
      }),
    onSuccess: (template) => storeTemplate(queries, template),
  })
}

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
