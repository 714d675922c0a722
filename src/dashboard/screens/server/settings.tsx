/** @module The settings of the running service, and where each comes from. */
import { Code, Stack } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorSetting } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { toWords } from '../../parts/fields.ts'
import { FilterForm } from '../../parts/filter-form.tsx'
import { readFilters } from '../../parts/filters.ts'
import { EmptyState, Section } from '../../parts/page.tsx'
import { type Column, column, DataTable } from '../../parts/table.tsx'
import { SETTING_FILTERS } from '../filters.ts'
import { ServerPage, useOne } from './frame.tsx'

const route = getRouteApi('/server/settings')

const COLUMNS: readonly Column<OperatorSetting>[] = [
  column('Setting', { width: '30%', isWrapped: true }, ({ variable }) => <Code>{variable}</Code>),
  column('Value', { width: '20%', isWrapped: true, phone: 'bare' }, ({ value }) =>
    value === '' ? '–' : <bdi>{value}</bdi>,
  ),
  column('From', { width: '7rem', phone: 'aside' }, ({ source }) => toWords(source)),
  column('Meaning', { isWrapped: true, phone: 'bare' }, ({ description, allowed }) => (
    <>
      {description}
      <div className="cell-details">Allowed: {allowed}.</div>
    </>
  )),
]

export default function ServerSettingsScreen() {
  const values = route.useSearch()
  const query = useOne(read.operator.listSettings())
  const navigate = route.useNavigate()
  return (
    <ServerPage
      title="Server settings"
      description="Read at the start: from the environment, else from the file that TASSIS_CONFIG names. Secrets are not shown."
      query={query}
      above={
        <FilterForm
          filters={SETTING_FILTERS}
          values={values}
          onChange={(next) => void navigate({ search: readFilters(SETTING_FILTERS)(next), replace: true })}
        />
      }
    >
      {(settings) => <Settings settings={filterSettings(settings, values.q, values.set === 'true')} />}
    </ServerPage>
  )
}

function Settings({ settings }: { readonly settings: readonly OperatorSetting[] }) {
  if (settings.length === 0)
    return (
      <EmptyState title="No setting matches" text="Search for a part of the name, such as smtp, or of its meaning." />
    )
  const topics = [...new Set(settings.map(({ topic }) => topic))]
  return (
    <Stack gap="xl">
      {topics.map((topic) => (
        <Section key={topic} title={topic}>
          <DataTable
            label={`Settings: ${topic}`}
            isWide
            columns={COLUMNS}
            rows={settings.filter((setting) => setting.topic === topic)}
            toKey={({ variable }) => variable}
          />
        </Section>
      ))}
    </Stack>
  )
}

/** @param isSetOnly whether to leave out those with their default */
const filterSettings = (
  settings: readonly OperatorSetting[],
  q: string | undefined,
  isSetOnly: boolean,
): readonly OperatorSetting[] => {
  const wanted = q?.toLowerCase() ?? ''
  return settings.filter(
    ({ variable, toml_key: key, description, source }) =>
      (!isSetOnly || source !== 'default') && `${variable} ${key} ${description}`.toLowerCase().includes(wanted),
  )
}
