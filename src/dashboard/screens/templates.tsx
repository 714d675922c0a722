/** @module The list of templates; the editor of a saved one, and of a new one: empty, from the example, or as a copy. */
import { Code, Group } from '@mantine/core'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { Template, TemplateSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { NameLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, useList } from '../parts/list.tsx'
import { EmptyState, Page, QueryView } from '../parts/page.tsx'
import { type Column, column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { TEMPLATE_FILTERS } from './filters.ts'
import { TemplateEditor } from './templates/editor.tsx'
import { toData } from './templates/json-data.ts'
import { STARTER, STARTER_DATA } from './templates/starter.ts'
import { type EditorTab, EMPTY_FIELDS, type TemplateFields, toFields } from './templates/texts.ts'
import { useTemplateDraft } from './templates/use-draft.ts'

const COLUMNS: readonly Column<TemplateSummary>[] = [
  column('Name', {}, ({ id, name }) => <NameLink to="/templates/$id" params={{ id }} title={name} name={name} />),
  column('Alias', { width: '22%', phone: 'bare' }, ({ alias, locale }) => (
    <>
      <Code>{alias}</Code> {locale}
    </>
  )),
  column('Subject', { width: '36%', phone: 'none' }, ({ subject }) => <bdi title={subject}>{subject}</bdi>),
  column('Version', { width: '5rem', isNumeric: true, phone: 'none' }, ({ version }) => version),
  column('Changed', { width: '9rem', phone: 'aside' }, ({ updated_at }) => <Time iso={updated_at} />),
]

export default function TemplatesScreen() {
  const list = useList({ read: read.templates.list, filters: TEMPLATE_FILTERS })
  return (
    <ListScreen
      title="Templates"
      list={list}
      columns={COLUMNS}
      noun="template"
      action={<ActionLink needs="developer" to="/templates/new" label="Create a template" />}
      empty={
        <EmptyState
          title="Your templates will appear here"
          text="A template has a subject and bodies with variables such as {{ user.name }}. An email names its alias and brings the values."
        >
          <Group>
            <ActionLink needs="developer" to="/templates/new" search={{ from: 'example' }}>
              Start with an example
            </ActionLink>
            <ActionLink needs="developer" variant="default" to="/templates/new" label="Start with an empty one" />
          </Group>
        </EmptyState>
      }
    />
  )
}

export function TemplateScreen() {
  const { id } = useParams({ from: '/templates/$id' })
  const query = useData(read.templates.get(id))
  if (query.data) return <SavedTemplate key={id} template={query.data} />
  return (
    <Page title="Template" back={{ label: 'All templates', target: { to: '/templates' } }}>
      <QueryView query={query}>{() => null}</QueryView>
    </Page>
  )
}

function SavedTemplate({ template }: { readonly template: Template }) {
  const { tab = 'html' } = useSearch({ from: '/templates/$id' })
  const navigate = useNavigate()
  const [initial] = useState(() => toFields(template))
  const [initialData] = useState(() => toData(template))
  const draft = useTemplateDraft({ template, initial, initialData, onCreated: () => undefined })
  return (
    <TemplateEditor
      draft={draft}
      tab={tab}
      onTab={(next) =>
        navigate({
          to: '/templates/$id',
          params: { id: template.id },
          search: { tab: next },
          replace: true,
          resetScroll: false,
        })
      }
    />
  )
}

const EXAMPLE = 'example'

export function TemplateNewScreen() {
  const { from, as } = useSearch({ from: '/templates/new' })
  const copied = useData(read.templates.get(from ?? ''), { enabled: from !== undefined && from !== EXAMPLE })
  if (from === undefined) return <NewTemplate key="" initial={EMPTY_FIELDS} initialData={'{\n}\n'} />
  if (from === EXAMPLE) return <NewTemplate key={from} initial={STARTER} initialData={STARTER_DATA} />
  if (!copied.data)
    return (
      <Page title="Create a template">
        <QueryView query={copied}>{() => null}</QueryView>
      </Page>
    )
  const fields = toFields(copied.data)
  const { alias } = fields
  const names = as ? { alias, locale: '' } : { alias: toCopyAlias(alias), name: `${fields.name.slice(0, 190)} (copy)` }
  return <NewTemplate key={from} initial={{ ...fields, ...names }} initialData={toData(copied.data)} />
}

const toCopyAlias = (alias: string): string => `${alias.slice(0, 95)}-copy`

function NewTemplate({ initial, initialData }: { readonly initial: TemplateFields; readonly initialData: string }) {
  const navigate = useNavigate()
  const [tab, setTab] = useState<EditorTab>('html')
  const draft = useTemplateDraft({
    template: undefined,
    initial,
    initialData,
    onCreated: ({ id }) => void navigate({ to: '/templates/$id', params: { id }, replace: true }),
  })
  return <TemplateEditor draft={draft} tab={tab} onTab={setTab} />
}
