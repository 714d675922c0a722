/** @module The list of templates. */
import { Code, Group, Text } from '@mantine/core'
import { useNavigate, useSearch } from '@tanstack/react-router'
import type { TemplateSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { type PageOf, usePage } from '../api/data.ts'
import { ActionButton } from '../parts/form.tsx'
import { TextLink } from '../parts/links.tsx'
import { EmptyState, Page, QueryView } from '../parts/page.tsx'
import { type Column, DataTable, Pages, SearchForm } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'

const COLUMNS: readonly Column<TemplateSummary>[] = [
  {
    header: 'Name',
    cell: ({ id, name }) => (
      <TextLink to={`/templates/${id}`}>
        <bdi>{name}</bdi>
      </TextLink>
    ),
  },
  { header: 'Alias', cell: ({ alias }) => <Code>{alias}</Code> },
  { header: 'Subject', cell: ({ subject }) => <bdi>{toShort(subject)}</bdi> },
  { header: 'Version', width: '6rem', cell: ({ version }) => version },
  { header: 'Changed', width: '9rem', cell: ({ updated_at }) => <Time iso={updated_at} /> },
]

const MAX_SHOWN_LENGTH = 120

/** Shortened between two characters. */
const toShort = (text: string): string =>
  text.length <= MAX_SHOWN_LENGTH ? text : `${text.slice(0, MAX_SHOWN_LENGTH).replace(/[\ud800-\udbff]$/, '')}…`

export default function TemplatesScreen() {
  const { page = 1, search } = useSearch({ from: '/templates' })
  const query = usePage(read.templates.list({ page, search }))
  const navigate = useNavigate()
  const add = (
    <ActionButton needs="developer" onClick={() => navigate({ to: '/templates/new' })}>
      New template
    </ActionButton>
  )
  const isEmpty = query.data?.pagination.total === 0 && search === undefined
  return (
    <Page title="Templates" action={isEmpty ? undefined : add}>
      {!isEmpty && (
        <SearchForm
          name="Search"
          label="Name or alias contains"
          button="default"
          maxLength={200}
          value={search}
          onSearch={(wanted) =>
            void navigate({ to: '/templates', search: wanted === undefined ? {} : { search: wanted } })
          }
        />
      )}
      <QueryView query={query}>
        {(found) =>
          isEmpty ? (
            <EmptyState title="Your templates will appear here">
              <Text maw={640}>
                A template has a subject and bodies with variables such as <Code>{'{{ user.name }}'}</Code>. An email
                names it by its alias and provides the values, so that texts change without a change of your program.
              </Text>
              <Group>
                <ActionButton
                  needs="developer"
                  onClick={() => navigate({ to: '/templates/new', search: { from: 'example' } })}
                >
                  Start with an example
                </ActionButton>
                <ActionButton needs="developer" variant="default" onClick={() => navigate({ to: '/templates/new' })}>
                  Start with an empty one
                </ActionButton>
              </Group>
            </EmptyState>
          ) : (
            <TemplateTable found={found} page={page} search={search} />
          )
        }
      </QueryView>
    </Page>
  )
}

interface TemplateTableProps {
  readonly found: PageOf<TemplateSummary>
  readonly page: number
  readonly search: string | undefined
}

function TemplateTable({ found: { data, pagination }, page, search }: TemplateTableProps) {
  return (
    <>
      {data.length > 0 && (
        <DataTable label="Templates, newest first" columns={COLUMNS} rows={data} toKey={({ id }) => id} />
      )}
      {data.length === 0 && (
        <Text role="status">
          {search === undefined
            ? 'There are no templates on this page.'
            : 'No template has this in its name or alias. '}
          {search !== undefined && (
            <TextLink to="/templates" search={{}} underline="always">
              Show all
            </TextLink>
          )}
        </Text>
      )}
      <Pages path="/templates" page={page} totalPages={pagination.total_pages} />
    </>
  )
}
