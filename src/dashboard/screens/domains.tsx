import { Text } from '@mantine/core'
import { Page } from '../parts/page.tsx'

export const DomainsScreen = () => (
  <Page title="Domains">
    <Text>Nothing here yet.</Text>
  </Page>
)
