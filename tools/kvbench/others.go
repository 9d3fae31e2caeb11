package kvbench

import (
	"reflect"

	"perigee/internal/kit/fault"
)

// others are the options of nixlbench that are not in Bench. Those with the tag param are a parameter of the plugin;
// of the rest perigee says what to do.
type others struct {
	AzureAccount     string `name:"azure_blob_account_url" param:"account_url" hidden:""`
	AzureConnection  string `name:"azure_blob_connection_string" param:"connection_string" hidden:""`
	AzureContainer   string `name:"azure_blob_container_name" param:"container_name" hidden:""`
	ObjCABundle      string `name:"obj_ca_bundle" param:"ca_bundle" hidden:""`
	PosixIOSPool     string `name:"posix_ios_pool_size" param:"ios_pool_size" hidden:""`
	PosixKernelQueue string `name:"posix_kernel_queue_size" param:"kernel_queue_size" hidden:""`
	ConfigFile       string `name:"config_file" instead:"write its options on the command line" hidden:""`
	Filenames        string `name:"filenames" instead:"name the folder or the file with --filepath" hidden:""`
	AsioAddress      string `name:"asio_address" instead:"ranks find each other by themselves" hidden:""`
	AsioPort         string `name:"asio_port" instead:"ranks find each other by themselves" hidden:""`
	UseDeviceAPI     bool   `name:"use_device_api" instead:"transfers are posted by the host" hidden:""`
	GusliClient      string `name:"gusli_client_name" hidden:""`
	GusliOffsets     string `name:"gusli_device_byte_offsets" hidden:""`
	GusliSecurity    string `name:"gusli_device_security" hidden:""`
	GusliRequests    string `name:"gusli_max_simultaneous_requests" hidden:""`
	GusliURing       bool   `name:"gusli_try_use_uring" hidden:""`
	InfiniaConfig    string `name:"infinia_config_file" hidden:""`
	ObjAccelerated   bool   `name:"obj_accelerated_enable" hidden:""`
	ObjAccelType     string `name:"obj_accelerated_type" hidden:""`
	ObjCRTLimit      string `name:"obj_crt_min_limit" hidden:""`
}

// params are the parameters of the plugin among the options. One that perigee cannot follow is an error of usage.
func (o others) params() (list []string, err error) {
	for f, v := range reflect.ValueOf(o).Fields() {
		if v.IsZero() {
			continue
		}
		param, ok := f.Tag.Lookup("param")
		if !ok {
			hint, ok := f.Tag.Lookup("instead")
			if !ok {
				hint = "--backend-param KEY=VALUE passes a parameter by the name that the plugin has for it"
			}
			return nil, fault.New(fault.Usage, "--%s is not supported here", f.Tag.Get("name")).WithHint("%s", hint)
		}
		list = append(list, param+"="+v.String())
	}
	return list, nil
}
