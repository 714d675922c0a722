import { Text } from '@mantine/core'
import { Page } from '../parts/page.tsx'

export const OverviewScreen = () => (
  <Page title="Overview">
    <Text>Nothing here yet.</Text>
  </Page>
)
