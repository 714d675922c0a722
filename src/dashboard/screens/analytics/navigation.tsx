/** @module The screens of the stats. */
import { AreaNavigation } from '../../parts/page.tsx'

export const AnalyticsNavigation = () => (
  <AreaNavigation
    label="Analytics"
    links={[
      { to: '/analytics', label: 'Figures' },
      { to: '/analytics/insights', label: 'Insights' },
    ]}
  />
)
